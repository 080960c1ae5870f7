"""When replicas write snapshots of `assignments`, and what they make of each other's."""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast.schemas import assignments, events
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Snapshot, Standing
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.snapshots import Pace
from holdfast.services.decisions.standings import MANY, Standings
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.memory import MemoryLog
from holdfast.services.recovery.replica import Replica

TOPICS = ClusterTopics()
WHERE = Partition(TOPICS.assignments, 0)
UNIT = "j@0-a/s-0"


def placed(epoch: int, unit: str = UNIT) -> Assignment:
    return Assignment("a", 0, (Change(unit, epoch, (Copy("w1", "1", PRIMARY),)),))


class Cluster:
    """A log, and replicas that read all of it."""

    def __init__(self, replicas: int = 1, every: int = 10) -> None:
        self.log = MemoryLog(lambda: 0)
        self.log.create(TOPICS.specs())
        self.epoch, self.every = 0, every
        self.replicas = [self.start(f"r{number}") for number in range(replicas)]
        self._read = 0

    def start(self, name: str) -> Replica:
        standings = read_standings(self.log, WHERE)
        backlog = Backlog({}, {})
        appender = self.log.appender(name)
        replica = Replica(name, TOPICS, appender, backlog, 100, begun=standings, snapshot_every=self.every)
        replica.trimmed({})
        return replica

    def change(self, count: int = 1) -> None:
        for _ in range(count):
            self.epoch += 1
            self.append(placed(self.epoch))

    def append(self, record: Assignment) -> None:
        self.log.put(WHERE, assignments.encode(record), None, None)
        while self._read < self.log.offsets([WHERE], "end")[WHERE]:
            for message in list(self.log.scan(WHERE, self._read)):
                self._read = message.offset() + 1
                for replica in self.replicas:
                    replica.read(WHERE, message.offset(), 0, message.value())

    def records(self) -> list[Assignment]:
        return [assignments.decode(message.value() or b"") for message in self.log.scan(WHERE)]

    def snapshots(self) -> list[Snapshot]:
        return [record.snapshot for record in self.records() if record.snapshot is not None]

    def told(self) -> list[str]:
        where = Partition(TOPICS.events, 0)
        return [events.decode(message.value() or b"").kind for message in self.log.scan(where)]


def test_a_replica_writes_one_when_the_log_has_grown_enough() -> None:
    cluster = Cluster()
    cluster.change(100)
    found = cluster.snapshots()
    assert 6 <= len(found) <= 11
    assert all(10 <= later.upto - one.upto <= 14 for one, later in pairwise(found))
    assert cluster.told() == []


def test_several_replicas_write_hardly_more_snapshots() -> None:
    cluster = Cluster(replicas=3)
    cluster.change(100)
    assert len(cluster.snapshots()) <= 20


def test_a_late_replica_knows_when_the_last_snapshot_was_written() -> None:
    cluster = Cluster()
    cluster.change(50)
    before = len(cluster.snapshots())
    cluster.replicas = [cluster.start("r9")]
    cluster.change()
    assert len(cluster.snapshots()) == before
    cluster.change(20)
    assert len(cluster.snapshots()) > before


def test_a_log_of_before_there_were_snapshots_gets_one_at_once() -> None:
    cluster = Cluster(replicas=0)
    cluster.change(50)
    cluster.replicas = [cluster.start("r9")]
    cluster.change()
    assert [one.upto for one in cluster.snapshots()] == [51]


def test_a_differing_snapshot_is_told_by_every_replica_and_counts_for_nothing() -> None:
    cluster = Cluster(replicas=2)
    cluster.change(5)
    cluster.append(Assignment("stranger", 0, (), Snapshot(5, (Standing(4, Change(UNIT, 77)),))))
    assert cluster.told() == ["snapshot-differs"] * 2
    assert all(replica.core.known.assigned.epoch(UNIT) == 5 for replica in cluster.replicas)
    cluster.change(20)
    assert cluster.snapshots()[1:]


def test_many_units_make_snapshots_seldom_and_what_was_not_appended_is_due_again() -> None:
    pace, standings = Pace("", 10, MANY), Standings()
    for number in range(2 * MANY):
        standings.read(number, placed(1, f"j@0-a/u-{number}"))

    def due() -> bool:
        return pace.due(standings.next, standings.snapshotted, len(standings))

    assert due()
    assert not due()
    pace.withdraw()
    assert due()
    standings.next += 19
    assert not due()
    standings.next += 1
    assert due()


def test_a_snapshot_too_large_for_kafka_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.services.recovery.assignment_snapshots.MAX_BYTES", 10)
    cluster = Cluster()
    cluster.change(50)
    assert cluster.snapshots() == []


def test_no_snapshot_follows_from_another_however_many_replicas_there_are() -> None:
    """More replicas than records between two snapshots answered each other's without end."""
    cluster = Cluster(replicas=4, every=3)
    cluster.change(6)
    snapshots = [record for record in cluster.records() if record.snapshot is not None]
    assert 1 <= len(snapshots) <= 6 * 4
