"""Several subscribers of one partition: each hears of every record from its own position on, and of the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.memory import MemoryLog, MemoryReader
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.host.subscriptions import Handler
from holdfast.services.worker.process.subscriptions import SharedReader

WHERE = Partition("in", 0)


@dataclass
class Heard:
    """Implements Subscriber."""

    offsets: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)

    def handler(self, partition: Partition) -> Handler:
        return self._hear

    def _hear(self, chunk: Chunk) -> None:
        self.offsets += [message.offset() for message in chunk.messages]
        self.ends += [] if chunk.end is None else [chunk.end]

    def broken(self, cause: str, partition: Partition | None = None) -> None:
        self.causes.append(cause)


def a_log_with_a_gap_at_its_end() -> MemoryLog:
    """Offset 2 is a transaction's marker."""
    log = MemoryLog(lambda: 0)
    log.create([TopicSpec(WHERE.topic, 1)])
    for value in (b"a", b"b"):
        log.put(WHERE, value, None, None)
    log.skip(WHERE)
    return log


def test_a_late_subscriber_hears_of_an_end_that_is_met_already() -> None:
    reader = SharedReader(a_log_with_a_gap_at_its_end().reader("r"))
    first, late = Heard(), Heard()
    reader.add(first, {WHERE: 0})
    reader.poll(0)
    assert (first.offsets, first.ends) == ([0, 1], [3])
    reader.add(late, {WHERE: 2})
    reader.poll(0)
    assert (late.offsets, late.ends) == ([], [3])
    assert (first.offsets, first.ends) == ([0, 1], [3])


def test_a_subscriber_that_needs_earlier_records_hears_of_the_end_behind_them() -> None:
    reader = SharedReader(a_log_with_a_gap_at_its_end().reader("r"))
    first, late = Heard(), Heard()
    reader.add(first, {WHERE: 1})
    reader.poll(0)
    reader.add(late, {WHERE: 0})
    assert late.ends == []
    reader.poll(0)
    assert (late.offsets, late.ends) == ([0, 1], [3])


def test_an_end_that_nobody_reads_any_more_is_forgotten() -> None:
    log = a_log_with_a_gap_at_its_end()
    reader = SharedReader(log.reader("r"))
    first, late = Heard(), Heard()
    reader.add(first, {WHERE: 0})
    reader.poll(0)
    reader.remove(first)
    log.put(WHERE, b"c", None, None)
    reader.add(late, {WHERE: 2})
    assert late.ends == []
    reader.poll(0)
    assert (late.offsets, late.ends) == ([3], [4])


def test_a_position_that_is_gone_breaks_whoever_reads_that_partition_and_nobody_else() -> None:
    log = a_log_with_a_gap_at_its_end()
    other = Partition(f"{WHERE.topic}-2.data", 0)  # the name of one topic begins another's
    log.create([TopicSpec(other.topic, 2)])
    log.put(other, b"a", None, None)
    log.trim({other: 1})
    reader = SharedReader(log.reader("r"))
    first, second, third = Heard(), Heard(), Heard()
    reader.add(first, {WHERE: 0})
    reader.add(second, {other: 0})
    reader.add(third, {Partition(other.topic, 1): 0})
    while reader.poll(0):
        pass
    assert (first.causes, third.causes) == ([], [])
    assert second.causes == [f"{other}: position 0 is not in the log (any more): it holds 1 to 1"]


def a_long_log() -> MemoryLog:
    log = MemoryLog(lambda: 0)
    log.create([TopicSpec(WHERE.topic, 1)])
    for _ in range(10):
        log.put(WHERE, b"a", None, None)
    return log


def test_a_subscriber_that_leaves_a_partition_is_not_offered_it_until_it_comes_again() -> None:
    reader, one, another = SharedReader(a_long_log().reader("r")), Heard(), Heard()
    reader.add(one, {WHERE: 0})
    reader.add(another, {WHERE: 2})
    reader.remove(one, [WHERE])
    reader.poll(0)
    assert (one.offsets, another.offsets) == ([], list(range(10)))
    reader.remove(another, [WHERE])
    reader.add(one, {WHERE: 7})
    reader.poll(0)
    assert one.offsets == [7, 8, 9]


def test_a_partition_is_held_until_the_last_holder_lets_go() -> None:
    reader, one = SharedReader(a_long_log().reader("r")), Heard()
    slow, slower = object(), object()
    reader.add(one, {WHERE: 0})
    for holder in (slow, slower, slow):
        reader.hold(holder, WHERE, True)
    reader.hold(slow, WHERE, False)
    reader.poll(0)
    assert one.offsets == []
    reader.hold(slower, WHERE, False)
    reader.poll(0)
    assert one.offsets == list(range(10))


# -- early connection (MECHANISMS H2) ---------------------------------------------------------------------------------


class Asked(MemoryReader):
    """Remembers what it was asked to do."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.calls: list[str] = []

    def assign(self, positions: Mapping[Partition, int]) -> None:
        self.calls += ["assign"] if positions else []
        super().assign(positions)

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.calls += ["pause"] if partitions else []
        super().pause(partitions)

    def unassign(self, partitions: Iterable[Partition]) -> None:
        gone = list(partitions)
        self.calls += ["unassign"] if gone else []
        super().unassign(gone)


def test_a_connected_subscriber_hears_nothing_until_it_reads_and_then_from_its_position() -> None:
    asked = Asked(a_long_log())
    reader, one = SharedReader(asked), Heard()
    reader.connect(one, {WHERE: 2})
    reader.connect(one, {WHERE: 3})
    reader.poll(0)
    assert (asked.calls, one.offsets, one.ends) == (["assign", "pause"], [], [])
    reader.add(one, {WHERE: 7})
    reader.poll(0)
    assert one.offsets == [7, 8, 9]


def test_a_subscriber_that_reads_no_more_stays_connected() -> None:
    asked = Asked(a_long_log())
    reader, one = SharedReader(asked), Heard()
    reader.connect(one, {WHERE: 2})
    reader.add(one, {WHERE: 7})
    reader.poll(0)
    del asked.calls[:]
    reader.remove(one)
    assert asked.calls == ["assign", "pause"]
    reader.poll(0)
    reader.disconnect(one)
    assert (asked.calls[2:], one.offsets) == (["unassign"], [7, 8, 9])


def test_a_subscriber_that_connects_stops_no_reader() -> None:
    reader, one, another = SharedReader(a_long_log().reader("r")), Heard(), Heard()
    reader.add(one, {WHERE: 0})
    reader.connect(another, {WHERE: 0})
    reader.poll(0)
    assert (one.offsets, another.offsets) == (list(range(10)), [])
    reader.disconnect(another)
    reader.remove(one)
    reader.connect(another, {WHERE: 0})
    reader.add(one, {WHERE: 8})
    reader.poll(0)
    assert (one.offsets[10:], another.offsets) == ([8, 9], [])
    reader.disconnect(another)
    reader.add(another, {WHERE: 9})
    reader.poll(0)
    assert another.offsets == [9]


def test_a_partition_that_changes_readers_is_read_on_where_it_was_and_stays_held() -> None:
    reader, one = SharedReader(a_long_log().reader("r")), Heard()
    reader.add(one, {WHERE: 3})
    reader.poll(0)
    reader.reassign(lambda partition: partition == WHERE)
    reader.poll(0)
    assert one.offsets == list(range(3, 10))
    reader.add(one, {WHERE: 5})
    reader.hold(one, WHERE, held=True)
    reader.reassign(lambda partition: partition == WHERE)
    reader.poll(0)
    assert one.offsets == list(range(3, 10)), "it is held"
    reader.hold(one, WHERE, held=False)
    reader.poll(0)
    assert one.offsets == [*range(3, 10), *range(5, 10)]
