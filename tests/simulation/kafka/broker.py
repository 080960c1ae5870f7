"""The simulated broker: the log in memory, which remembers every record and every trim, and wakes its readers at news.

Transactions take up offsets for their markers, as Kafka's do, so offsets of user topics have gaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from holdfast.schemas import assignments, plans
from holdfast.schemas.assignments import Change
from holdfast.schemas.plans import Decision, Ended, Plan, Rejection
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.memory import MemoryLog, MemoryTransactor
from holdfast.services.log.memory_records import Gap, MemoryMessage, Stored
from holdfast.services.log.protocol import Headers
from tests.simulation.kafka.names import TOPICS, replayed
from tests.simulation.kafka.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Written:
    """A record as it was appended. author: the process that wrote it."""

    time_us: int
    author: str
    partition: Partition
    offset: int
    value: bytes
    headers: Headers
    time_ms: int = 0


def decision_of(one: Written) -> Decision | None:
    """Decision in a record of `jobs.plans`; None for a record that decides nothing, such as a snapshot."""
    record = plans.decode_any(one.value) if one.partition.topic == TOPICS.plans else None
    return record if isinstance(record, Plan | Rejection | Ended) else None


def decisions(written: Iterable[Written]) -> Iterator[Decision]:
    """In their order, valid or not."""
    for one in written:
        if (decision := decision_of(one)) is not None:
            yield decision


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A DeleteRecords. seen: how many of the trace's records were written before it."""

    time_us: int
    author: str
    partition: Partition
    upto: int
    seen: int


@dataclass(frozen=True, slots=True)
class Held:
    """A transactional id was taken over, or refused to one who held it before. seen: as of a trim."""

    author: str
    transactional_id: str
    refused: bool
    seen: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """Standings of units where a process began to read `assignments`. next: the first offset it reads."""

    author: str
    next: int
    units: Mapping[str, Change]


@dataclass(frozen=True, slots=True)
class Past:
    """A topic of the user that was deleted, with its partitions. seen: as of a trim."""

    topic: str
    id: str
    stored: list[Stored]
    seen: int


@dataclass(slots=True)
class Absence:
    """Nobody led a partition. until_us: None: nobody does."""

    since_us: int
    until_us: int | None = None


STRANGER = "stranger"
"""Author of records that nobody should have written."""


class Broker(MemoryLog):
    """available: False during an outage, when nothing is answered. created: topics that were ever there.

    short_lived: a transaction with more than one batch takes too long, so the broker ends it and fences its writer.

    written: without what a stranger wrote, but for assignments, which count whatever their author.
    """

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(lambda: timeline.time_ms)
        self._timeline = timeline
        self.available, self.short_lived = True, False
        self.short: set[tuple[str, str]] = set()
        self.greedy: list[str] = []
        self.author = ""
        self.written: list[Written] = []
        self.trims: list[Trimmed] = []
        self.holdings: list[Held] = []
        self.beginnings: list[Beginning] = []
        self.created: set[str] = set()
        self.past: list[Past] = []
        self.absences: dict[Partition, list[Absence]] = defaultdict(list)
        self._trimmed: dict[Partition, list[MemoryMessage]] = defaultdict(list)
        self._watchers: dict[Partition, dict[int, Callable[[], None]]] = {}
        self._tickets = 0

    def put(
        self,
        partition: Partition,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        timestamp_ms: int | None = None,
    ) -> int:
        where = self.route(partition.topic, key) if partition.index < 0 else partition
        offset = super().put(where, value, key, headers, timestamp_ms)
        now_us = self._timeline.now_us
        if self.author != STRANGER or _is_assignment(where, value):
            time_ms = self._timeline.time_ms if timestamp_ms is None else timestamp_ms
            self.written.append(Written(now_us, self.author, where, offset, value or b"", headers or (), time_ms))
        self._tell(where)
        return offset

    def skip(self, partition: Partition) -> None:
        super().skip(partition)
        self._tell(partition)

    def trim(self, upto: Mapping[Partition, int]) -> None:
        for partition, offset in upto.items():
            if replayed(partition.topic):
                stored = self.stored(partition)
                self._trimmed[partition] += stored.messages[: max(0, offset - stored.start)]
        super().trim(upto)
        seen = len(self.written)
        self.trims += [Trimmed(self._timeline.now_us, self.author, p, offset, seen) for p, offset in upto.items()]

    def delete(self, names: Iterable[str]) -> None:
        """Deletes topics, but for those that the checkers replay: they outlive the job."""
        super().delete(name for name in names if not replayed(name))

    def compact(self, partition: Partition, before_ms: int, tombstones_before_ms: int) -> None:
        """Compacts: of records older than `before_ms` only the newest of each key stays, and no tombstone that is
        old.
        """
        stored, newest = self.stored(partition), dict[bytes | None, int]()
        for message in stored.read(stored.start, len(stored.messages)):
            newest[message.key()] = message.offset()
        for index, message in enumerate(stored.messages):
            time_ms, old = message.timestamp()[1], newest.get(message.key()) != message.offset()
            gone = message.value() is None and time_ms < tombstones_before_ms
            if (old and time_ms < before_ms) or gone:
                stored.messages[index] = Gap(-1, 0)

    def forget(self) -> None:
        """Forgets records that were written and trimmed, in a run that no checker looks at."""
        self.written.clear()
        self.trims.clear()
        self._trimmed.clear()

    def untrim(self) -> None:
        """For the checkers: what they replay is there from the first record on."""
        for partition, messages in self._trimmed.items():
            stored = self.stored(partition)
            stored.messages, stored.start = [*messages, *stored.messages], 0
        self._trimmed.clear()

    def take_over(self, transactional_id: str, holder: MemoryTransactor) -> None:
        super().take_over(transactional_id, holder)
        self.holdings.append(Held(self.author, transactional_id, False, len(self.written)))

    def refuse(self, transactional_id: str) -> None:
        """Remembers that a commit was."""
        self.holdings.append(Held(self.author, transactional_id, True, len(self.written)))

    def cut_short(self, transactional_id: str, author: str) -> None:
        """Its transaction took too long; was the one before it, too, it has learnt nothing from that."""
        if (transactional_id, author) in self.short:
            self.greedy.append(f"greedy: {author} began a transaction of {transactional_id} that takes too long again")
        self.short.add((transactional_id, author))

    def create(self, topics: Iterable[TopicSpec]) -> None:
        specs = list(topics)
        super().create(specs)
        self.created.update(spec.name for spec in specs)
        for partition in list(self._watchers):
            self._tell(partition)

    def remove(self, topic: str) -> None:
        """The user deletes a topic; the checkers still know what it held."""
        self.past.append(Past(topic, self._ids[topic], self._topics[topic], len(self.written)))
        self.delete([topic])

    def join(self, past: Past) -> None:
        """Puts what a deleted topic held before what the present one of its name holds."""
        for before, now in zip(past.stored, self._topics[past.topic], strict=True):
            messages, now.messages = [*before.messages, *now.messages], []
            for message in messages:
                message._offset = now.end
                now.messages.append(message)

    def lose_leaders(self, partitions: Collection[Partition]) -> None:
        for partition in set(partitions) - self.away:
            self.absences[partition].append(Absence(self._timeline.now_us))
        self.away.update(partitions)

    def find_leaders(self, partitions: Collection[Partition]) -> None:
        for partition in self.away.intersection(partitions):
            self.absences[partition][-1].until_us = self._timeline.now_us
        self.away.difference_update(partitions)

    def unled_since_us(self, partition: Partition, at_us: int) -> int | None:
        """Time at which its leader went that was away then; None: it had one."""
        past = (one for one in self.absences.get(partition, ()) if one.until_us is None or at_us < one.until_us)
        return next((one.since_us for one in past if one.since_us <= at_us), None)

    def partitions(self) -> list[Partition]:
        """All there are."""
        return [Partition(topic, index) for topic, count in self.topics().items() for index in range(count)]

    def watch(self, partition: Partition, tell: Callable[[], None]) -> int:
        """Calls `tell` when something is appended; returns a ticket for `unwatch`."""
        self._tickets += 1
        self._watchers.setdefault(partition, {})[self._tickets] = tell
        return self._tickets

    def unwatch(self, partition: Partition, ticket: int) -> None:
        self._watchers.get(partition, {}).pop(ticket, None)

    def _tell(self, partition: Partition) -> None:
        for tell in list(self._watchers.get(partition, {}).values()):
            tell()


def _is_assignment(partition: Partition, value: bytes | None) -> bool:
    if partition.topic != TOPICS.assignments:
        return False
    try:
        assignments.decode(value or b"")
    except msgspec.DecodeError:
        return False
    return True
