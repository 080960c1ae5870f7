"""Connection of one process to the simulated broker: a `Log` whose requests and answers take time, wait, or are lost.

Order within a partition is kept; between partitions each goes at its own pace. A record that a process has handed over
is on its own way: when the process dies, some of them still arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import Fenced, Indefinite, Retriable
from holdfast.services.log.memory import MemoryReader, MemoryTransactor
from holdfast.services.log.memory_records import Stored
from holdfast.services.log.protocol import Appender, At, Chunk, Delivered, Described, Headers, Message, Rows
from tests.simulation.kafka.blocking import Unled
from tests.simulation.kafka.broker import Broker
from tests.simulation.kafka.channel import Channel
from tests.simulation.kafka.names import kind_of
from tests.simulation.kafka.timeline import Timeline

TRANSACTION_TIMEOUT_US = 5_000_000
WAITED_FOR, UNANSWERED = "savepoint", 0.02
"""Appender whose process waits for it, and the share of its requests that get no answer."""


class Link:
    """Implements Log for one process.

    sends, hears: whether requests, and answers, get through. frozen: the process does nothing at all.
    lagging: what waits though the rest gets through: (kind of topic, "in" for what is read, "out" for appends).
    unserved: requests that are not answered though the rest is: topics, create, delete, start.
    wake: called when something for the process has come.
    """

    def __init__(self, name: str, broker: Broker, timeline: Timeline, random: Random) -> None:
        self.name, self.broker, self.timeline, self.random = name, broker, timeline, random
        self.sends = self.hears = True
        self.frozen = self.dead = False
        self.slowness = 1
        self.lagging: set[tuple[str, str]] = set()
        self.unserved: set[str] = set()
        self._jitter = random.choice((0.0, 0.02, 0.1, 0.3))
        self.wake: Callable[[], None] = lambda: None
        self.appended: Callable[[Partition, bytes], None] = lambda partition, value: None
        self.channels: list[Channel] = []
        self.readers: list[LinkReader] = []

    # -- its state ----------------------------------------------------------------------------------------------------

    def delay_us(self) -> int:
        """Delay of one way, now and then much longer."""
        base = 200 + int(2_800 * self.random.random())
        if self.random.random() < self._jitter:
            base *= self.random.randint(2, 60)
        return base * self.slowness

    @property
    def requests_pass(self) -> bool:
        return self.sends and self.broker.available and not self.frozen and not self.dead

    @property
    def answers_pass(self) -> bool:
        return self.hears and self.broker.available and not self.frozen and not self.dead

    @property
    def answered(self) -> bool:
        return self.requests_pass and self.answers_pass

    def lags(self, partition: Partition, way: str) -> bool:
        return bool(self.lagging) and (kind_of(partition.topic), way) in self.lagging

    def catch_up(self, kind: str, way: str) -> None:
        self.lagging.discard((kind, way))
        self.kick()

    def cut(self, sends: bool, hears: bool) -> None:
        """Sets which direction gets through."""
        self.sends, self.hears = sends, hears
        self.kick()

    def freeze(self) -> None:
        for channel in self.channels:
            channel.cut_off(keep=True)
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False
        self.kick()

    def die(self) -> None:
        for channel in self.channels:
            channel.cut_off(keep=False)
        self.dead = True
        for reader in self.readers:
            reader.close()

    def kick(self) -> None:
        for channel in self.channels:
            channel.kick()
        for reader in self.readers:
            reader.kick()

    # -- Log ----------------------------------------------------------------------------------------------------------

    def create(self, topics: Iterable[TopicSpec]) -> None:
        self._ask("create").create(topics)

    def delete(self, names: Iterable[str]) -> None:
        self._ask("delete").delete(names)

    def topics(self, needed: Iterable[str] = ()) -> dict[str, int]:
        return self._ask("topics").topics(needed)

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        return self._ask("topics").describe(topics)

    def config(self, topic: str) -> dict[str, str]:
        return self._ask().config(topic)

    def configure(self, topics: Iterable[TopicSpec]) -> None:
        self._ask().configure(topics)

    def offsets(self, partitions: Iterable[Partition], at: At) -> dict[Partition, int]:
        return self._ask().offsets(partitions, at)

    def trim(self, upto: Mapping[Partition, int]) -> None:
        self._ask().trim(upto)

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        return self._ask().scan(partition, start)

    def last(self, partition: Partition, settled: bool = False) -> Message | None:
        return self._ask().last(partition, settled)

    def tail(self, partition: Partition, settled: bool = False) -> Sequence[Message]:
        return self._ask().tail(partition, settled)

    def reader(
        self, name: str, *, on_demand: bool = False, patient: bool = False, waits_long: bool = False
    ) -> LinkReader:
        reader = LinkReader(self)
        self.readers.append(reader)
        return reader

    def appender(self, name: str) -> Appender:
        return WaitingAppender(self) if name == WAITED_FOR else LinkAppender(self)

    def transactor(self, transactional_id: str, batch_bytes: int | None = None) -> LinkTransactor:
        return LinkTransactor(self, transactional_id)

    def close(self) -> None:
        pass

    def _ask(self, request: str = "") -> Broker:
        if not self.answered or request in self.unserved:
            raise Retriable(f"{self.name}: the broker does not answer")
        self.broker.author = self.name
        return self.broker


class LinkReader(MemoryReader):
    """Implements Reader: sees a partition as it was when the last fetch was answered."""

    def __init__(self, link: Link) -> None:
        super().__init__(link.broker)
        self._link = link
        self._seen: dict[Partition, Any] = {}
        self._news: dict[Partition, Any] = {}
        self._fetching: dict[Partition, Any] = {}
        self._stuck: dict[Partition, Any] = {}
        self._tickets: dict[Partition, int] = {}
        self._fetches = 0

    def assign(self, positions: Mapping[Partition, int]) -> None:
        super().assign(positions)
        for partition in positions:
            if partition not in self._tickets:
                self._tickets[partition] = self._link.broker.watch(partition, partial(self._fetch, partition))
            self._forget_seen(partition)
            self._fetch(partition)

    def _forget_seen(self, partition: Partition) -> None:
        for known in (self._seen, self._news, self._fetching, self._stuck):
            known.pop(partition, None)

    def unassign(self, partitions: Iterable[Partition]) -> None:
        gone = list(partitions)
        super().unassign(gone)
        for partition in gone:
            if partition in self._tickets:
                self._link.broker.unwatch(partition, self._tickets.pop(partition))
            self._forget_seen(partition)

    def poll(self, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        return super().poll(timeout_s, max_messages) if self._news or self._errors else []

    def close(self) -> None:
        self.unassign(list(self._tickets))
        super().close()

    def kick(self) -> None:
        """The broker can be reached again."""
        stuck, self._stuck = self._stuck, {}
        for partition in stuck:
            self._fetch(partition)

    def _fetch(self, partition: Partition) -> None:
        if partition in self._fetching:
            return
        self._fetches += 1
        self._fetching[partition] = self._fetches
        self._link.timeline.after(self._link.delay_us(), partial(self._fetched, partition, self._fetches))

    def _fetched(self, partition: Partition, fetch: int) -> None:
        if self._fetching.get(partition) != fetch:
            return
        del self._fetching[partition]
        if not self._link.answered or self._link.lags(partition, "in") or partition in self._link.broker.away:
            self._stuck[partition] = None
        elif (stored := self._link.broker.find(partition)) is not None:
            self._seen[partition] = stored.end
            self._news[partition] = None
            self._link.wake()

    def _visible(self, partition: Partition, end: int) -> int:
        return max(self._positions[partition], min(end, int(self._seen[partition])))

    def _wanted(self) -> list[Partition]:
        return list(self._news)

    def _read(self, partition: Partition, stored: Stored, count: int) -> Chunk | None:
        chunk = super()._read(partition, stored, count)
        if self._positions[partition] >= self._seen[partition] or partition in self._silent:
            del self._news[partition]
        return chunk


class LinkAppender:
    """Implements Appender: tries for ever; one channel for each partition."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._channels: dict[Partition, Channel] = {}
        self._answers = Channel(link, lambda: link.answers_pass)
        self._due: deque[Callable[[], None]] = deque()
        self._unanswered = 0

    def append(
        self,
        partition: Partition,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        done: Delivered | None = None,
    ) -> None:
        if partition not in self._channels:
            self._channels[partition] = Channel(self._link, lambda: self._passes(partition))
        self._unanswered += 1
        when_ms = self._link.timeline.time_ms if timestamp_ms is None else timestamp_ms
        self._channels[partition].send(partial(self._land, partition, value, key, headers, when_ms, done))

    @property
    def waiting(self) -> bool:
        """True if any record is not answered."""
        return self._unanswered > 0

    def _passes(self, partition: Partition) -> bool:
        away = partition in self._link.broker.away
        return self._link.requests_pass and not away and not self._link.lags(partition, "out")

    def poll(self) -> None:
        while self._due:
            self._due.popleft()()

    def flush(self, timeout_s: float) -> None:
        """Cannot wait: what is not answered by now is late."""
        self.poll()
        if self._unanswered:
            raise Retriable(f"{self._link.name}: {self._unanswered} records are not answered")

    def close(self) -> None:
        self.poll()

    def _land(
        self,
        partition: Partition,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        when_ms: int,
        done: Delivered | None,
    ) -> None:
        broker = self._link.broker
        broker.author = self._link.name
        try:
            offset = broker.put(partition, value, key, headers, when_ms)
        except Retriable as unknown:
            self._answers.send(partial(self._answer, done, unknown, -1))
        else:
            self._answers.send(partial(self._answer, done, None, offset))
            self._link.appended(partition, value or b"")

    def _answer(self, done: Delivered | None, error: Exception | None, offset: int) -> None:
        self._unanswered -= 1
        if done is not None:
            self._due.append(partial(done, error, offset))
            self._link.wake()


class WaitingAppender:
    """Implements Appender: its process does nothing else until the broker has answered. Some requests it does not
    answer, though what was sent before has arrived.

    passes: called while it waits.
    """

    def __init__(self, link: Link, passes: Callable[[], None] = lambda: None) -> None:
        self._link, self._passes = link, passes
        self._waiting: deque[Callable[[], None]] = deque()

    def append(
        self,
        partition: Partition,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        done: Delivered | None = None,
    ) -> None:
        self._waiting.append(partial(self._land, partition, value, key, headers, timestamp_ms, done))

    def poll(self) -> None:
        """Nothing arrives but by flush."""

    def flush(self, timeout_s: float) -> None:
        self._passes()
        arrive = len(self._waiting)
        if self._link.random.random() < UNANSWERED:
            arrive = self._link.random.randint(0, arrive)
        while self._waiting:
            if not self._link.answered or not arrive:
                raise Retriable(f"{self._link.name}: {len(self._waiting)} records are not answered")
            self._waiting.popleft()()
            arrive -= 1
        self._passes()

    def close(self) -> None:
        """What is not flushed is lost."""

    def _land(
        self,
        partition: Partition,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        timestamp_ms: int | None,
        done: Delivered | None,
    ) -> None:
        self._link.broker.author = self._link.name
        offset = self._link.broker.put(partition, value, key, headers, timestamp_ms)
        if done is not None:
            done(None, offset)


class CommandLink(Link):
    """That of a command of a person, which waits for each answer. passes: called while it does."""

    passes: Callable[[], None] = staticmethod(lambda: None)

    def appender(self, name: str) -> Appender:
        return WaitingAppender(self, lambda: self.passes())


class LinkTransactor(MemoryTransactor):
    """Implements Transactor; called by `LinkBlocking` at the moment at which its request arrives."""

    def __init__(self, link: Link, transactional_id: str) -> None:
        super().__init__(link.broker, transactional_id)
        self._link = link
        self._usable = False
        self._starts = 0

    def start(self) -> None:
        if not self._link.requests_pass or "start" in self._link.unserved:
            raise Retriable(f"{self._id}: start is not answered")
        self._starts += 1
        self._link.broker.author = self._link.name
        super().start()
        self._usable = self._link.answers_pass
        if not self._usable:
            raise Retriable(f"{self._id}: start is not answered")

    def commit(self, rows: Sequence[Rows]) -> None:
        if not self._usable:
            raise Fenced(f"{self._id} is not held: start first")
        if not self._link.requests_pass:
            self._usable = False
            if self._link.random.random() < 0.5:
                late_us = self._link.random.randint(1_000, TRANSACTION_TIMEOUT_US)
                self._link.timeline.after(late_us, partial(self._late, self._starts, list(rows)))
            raise Indefinite(f"{self._id}: the last transaction may be committed or not")
        if self._link.broker.short_lived and len(_batches(rows)) > 1:
            self._usable = False
            self._link.broker.cut_short(self._id, self._link.name)
            raise Fenced(f"{self._id}: the broker has ended a transaction that took too long")
        self._commit(rows)
        self._link.broker.short.discard((self._id, self._link.name))
        if not self._link.answers_pass:
            self._usable = False
            raise Indefinite(f"{self._id}: the last transaction may be committed or not")

    def _commit(self, rows: Sequence[Rows]) -> None:
        broker = self._link.broker
        broker.author = self._link.name
        before = len(broker.written)
        try:
            super().commit(rows)
        except Fenced:
            self._usable = False
            broker.refuse(self._id)
            raise
        except Retriable as unled:
            raise Unled(str(unled)) from unled
        touched = dict.fromkeys(written.partition for written in broker.written[before:])
        for partition in touched:
            broker.skip(partition)
        for written in broker.written[before:]:
            self._link.appended(written.partition, written.value)

    def _late(self, starts: int, rows: Sequence[Rows]) -> None:
        """A request of which nobody heard, carried out at last, unless the id was taken over meanwhile."""
        held = starts == self._starts and self._link.broker.holds(self._id, self)
        if held and self._link.broker.available:
            with suppress(Retriable):  # a leader is away: it is aborted
                self._commit(rows)


def _batches(rows: Sequence[Rows]) -> set[str | bytes | None]:
    return {value for one in rows for name, value in one.headers or () if name == "batch"}
