"""The data reader that asks for a paced job's records only when a batch is due."""

from __future__ import annotations

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import PositionGone
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.process.paced import BULK, HURRY_MS, LEAD_MS, PacedReader

USERS, FRAMES, BELL = Partition("users", 0), Partition("frames", 0), Partition("events", 0)


class Around:
    """Two readers of one log, whose polls are counted, and a clock."""

    def __init__(self) -> None:
        self.log, self.now_ms, self.paced = MemoryLog(lambda: 0), 1_000.0, {USERS}
        self.log.create([TopicSpec(one.topic) for one in (USERS, FRAMES)])
        self.often, self.seldom = self.log.reader("often"), self.log.reader("seldom")
        self.looks: list[float] = []
        poll = self.seldom.poll

        def counted(timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
            self.looks.append(self.now_ms)
            return poll(timeout_s, max_messages)

        self.seldom.poll = counted  # type: ignore[method-assign]
        self.reader = PacedReader(self.often, self.seldom, lambda one: one in self.paced, lambda: self.now_ms)

    def write(self, partition: Partition, records: int = 1) -> None:
        appender = self.log.appender("test")
        for _ in range(records):
            appender.append(partition, b"x")
        appender.flush(1)

    def read(self, now_ms: float) -> list[Partition]:
        self.now_ms = now_ms
        return [chunk.partition for chunk in self.reader.poll(0) if chunk.messages and self.reader.current(chunk)]


def test_paced_records_come_when_they_are_wanted_and_others_at_once() -> None:
    around = Around()
    around.reader.assign({USERS: 0, FRAMES: 0})
    around.reader.wanted_ms = 1_100.0
    around.write(USERS)
    around.write(FRAMES)
    assert around.read(1_000.0) == [FRAMES]
    assert around.read(1_100.0 - LEAD_MS) == [USERS]  # what the reader had: now it asks for what came since
    around.write(USERS)
    assert around.read(1_099.0) == []
    assert around.reader.next_ms == 1_100.0
    assert around.read(1_100.0) == [USERS]
    assert around.looks == [1_100.0 - LEAD_MS, 1_100.0]


def test_a_backlog_is_read_at_once() -> None:
    around = Around()
    around.reader.assign({USERS: 0})
    around.write(USERS, BULK)
    around.reader.wanted_ms = 1_000.0
    assert around.read(1_000.0) == [USERS]
    around.reader.wanted_ms = 2_000.0
    assert around.reader.next_ms == 1_000.0 + HURRY_MS
    around.write(USERS)
    assert around.read(1_001.0) == [USERS]
    assert around.reader.next_ms == 2_000.0 - LEAD_MS


def test_a_partition_that_is_assigned_again_changes_hands_and_old_chunks_are_dropped() -> None:
    around = Around()
    around.reader.assign({USERS: 0})
    around.write(USERS)
    around.reader.wanted_ms = 1_000.0
    around.now_ms = 1_000.0
    (old,) = [chunk for chunk in around.reader.poll(0) if chunk.messages]
    around.paced.clear()
    around.reader.assign({USERS: 0})
    assert not around.reader.paces
    assert not around.reader.current(old)
    assert around.read(1_001.0) == [USERS]
    assert around.looks == [1_000.0]


def test_an_error_of_one_reader_loses_nothing_of_the_other_one() -> None:
    around = Around()
    around.reader.assign({USERS: 0, FRAMES: 0})
    around.write(USERS)
    around.reader.wanted_ms = 1_000.0
    polls = iter([PositionGone(FRAMES, 0, "gone"), None])
    poll = around.often.poll

    def failing(timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        if (error := next(polls)) is not None:
            raise error
        return poll(timeout_s, max_messages)

    around.often.poll = failing  # type: ignore[method-assign]
    try:
        around.read(1_000.0)
    except PositionGone:
        assert around.read(1_001.0) == [USERS]
    else:
        raise AssertionError("the error was swallowed")


def test_the_reader_on_demand_follows_the_bell_while_it_has_other_partitions() -> None:
    around = Around()
    around.log.create([TopicSpec(BELL.topic)])
    reader = PacedReader(around.often, around.seldom, around.paced.__contains__, lambda: around.now_ms, [BELL])
    assigned: list[dict[Partition, int] | set[Partition]] = []
    around.seldom.assign = lambda positions: assigned.append(dict(positions))  # type: ignore[method-assign]
    around.seldom.unassign = lambda partitions: assigned.append(set(partitions))  # type: ignore[method-assign]
    reader.assign({BELL: 0, FRAMES: 0})
    around.write(BELL, 3)
    assert [len(chunk.messages) for chunk in reader.poll(0) if chunk.messages] == [3]
    assert not any(assigned), "one that has nothing else asks for nothing"
    reader.assign({USERS: 0})
    assert assigned[-2:] == [{USERS: 0}, {BELL: 3}]
    reader.unassign([USERS])
    assert assigned[-2:] == [{USERS}, {BELL}]


def test_the_bell_gives_each_record_once() -> None:
    around = Around()
    around.log.create([TopicSpec(BELL.topic)])
    around.reader = PacedReader(around.often, around.seldom, around.paced.__contains__, lambda: around.now_ms, [BELL])
    around.reader.assign({BELL: 0, USERS: 0})
    around.write(BELL)
    around.reader.wanted_ms = around.now_ms
    assert around.read(around.now_ms) == [BELL]


def test_all_is_read_on_demand_where_no_partition_but_signals_is_read_all_the_time() -> None:
    around = Around()
    around.log.create([TopicSpec(BELL.topic)])
    reader = PacedReader(around.often, around.seldom, around.paced.__contains__, lambda: around.now_ms, [BELL])
    found = list[bool]()
    for positions in ({BELL: 0}, {USERS: 0}, {FRAMES: 0}):
        reader.assign(positions)
        found.append(reader.all_on_demand)
    reader.unassign([FRAMES])
    assert [*found, reader.all_on_demand] == [False, True, False, True]
