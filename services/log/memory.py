"""A Kafka in memory for `holdfast try`, simulations and most tests.

One suite, tests/contract, holds this log and services/log/kafka/log.py to the same contract. The log in memory leaves
out: offsets of a transaction's end, unanswered requests except to partitions without a leader, and use by threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import Fenced, InvalidRecord, PositionGone, Retriable, StateCorrupted
from holdfast.services.kernel.plurals import plural
from holdfast.services.log.answers import Unacknowledged
from holdfast.services.log.memory_records import Gap, Stored
from holdfast.services.log.protocol import At, Chunk, Delivered, Described, Headers, Message, Rows
from holdfast.services.log.record_sizes import CLIENT_BYTES, largest, sizes

STRETCH = 64
"""The number of records in a tail."""


class MemoryLog:
    """Implements Log.

    time_ms: returns the timestamp of a record that has none.
    away: partitions without a leader. Requests about them raise Retriable, appends wait, and readers get neither
        records nor an end until the leader is back. Other partitions are served, and metadata name all partitions.
    """

    def __init__(self, time_ms: Callable[[], int]) -> None:
        self._time_ms = time_ms
        self.away: set[Partition] = set()
        self._topics: dict[str, list[Stored]] = {}
        self._configs: dict[str, dict[str, str]] = {}
        self._ids: dict[str, str] = {}
        self._made = 0
        self._holders: dict[str, MemoryTransactor] = {}

    def create(self, topics: Iterable[TopicSpec]) -> None:
        for spec in topics:
            if spec.name not in self._topics:
                self._topics[spec.name] = [Stored() for _ in range(spec.partitions)]
                self._configs[spec.name] = dict(spec.config)
                self._made += 1
                self._ids[spec.name] = f"id-{self._made}"

    def grow(self, topic: str, partitions: int) -> None:
        """Adds partitions until the topic has this number, as an operator of Kafka may do."""
        stored = self._topics[topic]
        stored += [Stored() for _ in range(partitions - len(stored))]

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._topics.pop(name, None)
            self._configs.pop(name, None)

    def topics(self, needed: Iterable[str] = ()) -> dict[str, int]:
        return {name: len(partitions) for name, partitions in self._topics.items()}

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        present = [name for name in topics if name in self._topics]
        return {name: Described(self._ids[name], len(self._topics[name])) for name in present}

    def config(self, topic: str) -> dict[str, str]:
        return dict(self._configs.get(topic, {}))

    def configure(self, topics: Iterable[TopicSpec]) -> None:
        for spec in topics:
            self._configs[spec.name] |= spec.config

    def offsets(self, partitions: Iterable[Partition], at: At) -> dict[Partition, int]:
        return {partition: _offset(self.led(partition), at) for partition in partitions}

    def trim(self, upto: Mapping[Partition, int]) -> None:
        for partition, stored in [(partition, self.led(partition)) for partition in upto]:
            if (offset := upto[partition]) > stored.end:
                raise StateCorrupted(f"{partition}: cannot trim up to {offset}, which is above the end {stored.end}")
            stored.trim(offset)

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        stored = self.led(partition)
        begin = stored.start if start is None else start
        if not stored.start <= begin <= stored.end:
            raise _gone(partition, begin, stored)
        return iter(stored.read(begin, len(stored.messages)))

    def last(self, partition: Partition, settled: bool = False) -> Message | None:
        return next(self._newest_first(partition), None)

    def tail(self, partition: Partition, settled: bool = False) -> Sequence[Message]:
        return list(itertools.islice(self._newest_first(partition), STRETCH))[::-1]

    def _newest_first(self, partition: Partition) -> Iterator[Message]:
        return (m for m in reversed(self.led(partition).messages) if not isinstance(m, Gap))

    def reader(
        self, name: str, *, on_demand: bool = False, patient: bool = False, waits_long: bool = False
    ) -> MemoryReader:
        return MemoryReader(self)

    def appender(self, name: str) -> MemoryAppender:
        return MemoryAppender(self)

    def transactor(self, transactional_id: str, batch_bytes: int | None = None) -> MemoryTransactor:
        return MemoryTransactor(self, transactional_id)

    def close(self) -> None:
        pass

    # -- for the classes below ----------------------------------------------------------------------------------------

    def find(self, partition: Partition) -> Stored | None:
        """Returns the partition; None if it does not exist."""
        topic, index = partition
        partitions = self._topics.get(topic, ())
        return partitions[index] if 0 <= index < len(partitions) else None

    def stored(self, partition: Partition) -> Stored:
        if (stored := self.find(partition)) is None:
            raise Retriable(f"{partition} does not exist")
        return stored

    def led(self, partition: Partition) -> Stored:
        """Returns the partition. Raises Retriable if it has no leader or does not exist."""
        if self.away and partition in self.away:
            raise Retriable(f"{partition}: its leader is away")
        return self.stored(partition)

    def route(self, topic: str, key: bytes | None) -> Partition:
        """Returns the partition to which murmur2 sends a key; records without a key go to the first partition."""
        partitions = self._topics.get(topic)
        if not partitions:
            raise Retriable(f"{topic} does not exist")
        if key is None or len(partitions) == 1:
            return Partition(topic, 0)
        from confluent_kafka import murmur2  # loaded only if a key must choose a partition

        return Partition(topic, murmur2(key, len(partitions)))

    def every(self, topic: str) -> Iterable[Partition]:
        """Partitions that a routed record may reach; empty while all partitions have a leader."""
        self.route(topic, None)
        return (Partition(topic, index) for index in range(len(self._topics[topic]))) if self.away else ()

    def put(
        self,
        partition: Partition,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        timestamp_ms: int | None = None,
    ) -> int:
        """Appends a record; returns its offset."""
        where = self.route(partition.topic, key) if partition.index < 0 else partition
        time_ms = self._time_ms() if timestamp_ms is None else timestamp_ms
        return self.stored(where).append(time_ms, value, key, headers)

    def skip(self, partition: Partition) -> None:
        """Appends an offset without a record."""
        stored = self.stored(partition)
        stored.messages.append(Gap(stored.end, self._time_ms()))

    def too_large(self, rows: Iterable[Rows]) -> str:
        """Returns the topic that refuses one of its rows because of its size; empty if every topic takes its rows."""
        for one in rows:
            limit = self._configs.get(one.topic, {}).get("max.message.bytes", CLIENT_BYTES)
            most = min(int(limit), CLIENT_BYTES)
            if largest(one) > most and any(size > most for size in sizes(one)):
                return one.topic
        return ""

    def take_over(self, transactional_id: str, holder: MemoryTransactor) -> None:
        self._holders[transactional_id] = holder

    def holds(self, transactional_id: str, holder: MemoryTransactor) -> bool:
        return self._holders.get(transactional_id) is holder


_GENERATIONS = itertools.count(1)
"""Numbers for all readers of the process: when a partition moves to another reader, records of the first reader are
outdated.
"""


class MemoryReader:
    """Implements Reader; partitions that do not exist (yet) give nothing."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._positions: dict[Partition, int] = {}
        self._generations: dict[Partition, int] = {}
        self._ended: dict[Partition, int] = {}
        self._silent: set[Partition] = set()
        self._errors: dict[Partition, PositionGone] = {}

    def assign(self, positions: Mapping[Partition, int]) -> None:
        for partition, offset in positions.items():
            self._positions[partition] = offset
            self._generations[partition] = next(_GENERATIONS)
            self._forget(partition)

    def unassign(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)
            self._generations.pop(partition, None)
            self._forget(partition)

    def pause(self, partitions: Iterable[Partition]) -> None:
        self._silent.update(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._silent.difference_update(partitions)

    def poll(self, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        """Reads without a wait. Partitions take turns when they hold more than max_messages."""
        self._raise_first()
        chunks: list[Chunk] = []
        left = max_messages
        for partition in self._wanted():
            if partition in self._silent or partition in self._log.away:
                continue
            if (stored := self._log.find(partition)) is None:
                continue
            chunk = self._read(partition, stored, left)
            if chunk is not None:
                chunks.append(chunk)
                left -= len(chunk.messages)
            if left <= 0:
                self._positions[partition] = self._positions.pop(partition)  # to the back
                break
        if not chunks:
            self._raise_first()
        return chunks

    def current(self, chunk: Chunk) -> bool:
        return self._generations.get(chunk.partition) == chunk.generation

    def close(self) -> None:
        self._positions.clear()
        self._generations.clear()

    def _forget(self, partition: Partition) -> None:
        self._ended.pop(partition, None)
        self._silent.discard(partition)
        self._errors.pop(partition, None)

    def _raise_first(self) -> None:
        """Raises each error once, and only when no records of other partitions would be lost with it."""
        if self._errors:
            raise self._errors.pop(next(iter(self._errors)))

    def _wanted(self) -> list[Partition]:
        """The assigned partitions, in the order in which `poll` reads them."""
        return list(self._positions)

    def _visible(self, partition: Partition, end: int) -> int:
        """The end up to which the partition can be read now; in memory every record is visible at once."""
        return end

    def _read(self, partition: Partition, stored: Stored, count: int) -> Chunk | None:
        position, end = self._positions[partition], stored.end
        if position == end and self._ended.get(partition) == end:
            return None  # nothing has come since the last poll, which is the usual case
        if not stored.start <= position <= end:
            self._silent.add(partition)
            self._errors[partition] = _gone(partition, position, stored)
            return None
        end = self._visible(partition, end)
        messages = stored.read(position, min(count, end - position))
        position = min(position + count, end)
        self._positions[partition] = position
        met = position == end and self._ended.get(partition) != end
        if met:
            self._ended[partition] = end
        if not messages and not met:
            return None
        return Chunk(partition, messages, end if met else None, self._generations[partition])


class MemoryAppender:
    """Implements Appender; records are stored at once, or once a leader is back; `done` is called at the next poll."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._due: list[tuple[Delivered, int]] = []
        self._waiting: list[tuple[Partition, Callable[[], None], Delivered | None]] = []

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
        def put() -> None:
            offset = self._log.put(where, value, key, headers, timestamp_ms)
            if done is not None:
                self._due.append((done, offset))

        where = self._log.route(partition.topic, key) if partition.index < 0 else partition
        if where in self._log.away or (self._waiting and any(where == other for other, _, _ in self._waiting)):
            self._waiting.append((where, put, done))
        else:
            put()

    def poll(self) -> None:
        waiting, self._waiting = self._waiting, []
        for where, put, done in waiting:
            if where in self._log.away:
                self._waiting.append((where, put, done))
                continue
            try:
                put()
            except Retriable as gone:  # the topic was deleted meanwhile
                if done is not None:
                    done(gone, -1)
        due, self._due = self._due, []
        for done_, offset in due:
            done_(None, offset)

    def flush(self, timeout_s: float) -> None:
        self.poll()
        if self._waiting:
            raise Unacknowledged(
                f"{plural(len(self._waiting), 'record')} wait for a leader, as that of {self._waiting[0][0]}"
            )

    def close(self) -> None:
        self.poll()
        waiting, self._waiting = self._waiting, []
        for where, _, done in waiting:
            if done is not None:
                done(Retriable(f"{where}: its leader is away"), -1)


class MemoryTransactor:
    """Implements Transactor: the transactor that started last holds the id."""

    def __init__(self, log: MemoryLog, transactional_id: str) -> None:
        self._log = log
        self._id = transactional_id
        self._over: InvalidRecord | None = None

    def connect(self) -> None:
        pass

    def start(self) -> None:
        self._log.take_over(self._id, self)
        self._over = None

    def commit(self, rows: Sequence[Rows]) -> None:
        if not self._log.holds(self._id, self):
            raise Fenced(f"{self._id} was taken over, or never started")
        if self._over is None and (refused := self._log.too_large(rows)):
            self._over = InvalidRecord(f"{self._id}: {refused} refuses a row (MSG_SIZE_TOO_LARGE)")
        if self._over is not None:
            raise InvalidRecord(*self._over.args)
        for one in rows:  # a missing topic is found before the first row is stored: a transaction is all or nothing
            for index in {-1} if one.partitions is None else set(one.partitions):
                for where in self._log.every(one.topic) if index < 0 else (Partition(one.topic, index),):
                    self._log.led(where)
        for one in rows:
            keys = one.keys or [None] * len(one.values)
            partitions = one.partitions or [-1] * len(one.values)
            for value, key, index, headers in zip(one.values, keys, partitions, one.each_headers(), strict=True):
                self._log.put(Partition(one.topic, index), value, key, headers)

    def close(self) -> None:
        pass


def _offset(stored: Stored, at: At) -> int:
    if at == "start":
        return stored.start
    if at == "end":
        return stored.end
    return next((m.offset() for m in stored.messages if m.timestamp()[1] >= at), stored.end)


def _gone(partition: Partition, position: int, stored: Stored) -> PositionGone:
    return PositionGone(partition, position, f"it holds {stored.start} to {stored.end}")
