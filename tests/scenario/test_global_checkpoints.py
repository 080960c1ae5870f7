"""Global checkpoints on whole workers: what is kept for the newest one, units that go back to it (MECHANISMS R1, R3).

On a log in memory. The test is the coordinator: it states what is complete, as a controller does, and rolls units back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

from holdfast.schemas import assignments, checkpoints, progress
from holdfast.schemas.assignments import PRIMARY, Assignment, Flags, GlobalCheckpoint, job_key
from holdfast.schemas.checkpoints import Marker, Rollback
from holdfast.schemas.frames import unpack
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.global_checkpoints import newest
from holdfast.services.decisions.policies import in_force
from holdfast.services.decisions.sums import furthest
from holdfast.services.kernel.plans.layout import data_topics, readers
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.worker.checkpoint.restore import rebuild
from holdfast.services.worker.unit.checkpoints import trimmer
from tests.scenario.test_checkpoint_policies import STANDBY, feed, job
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import check, orders

EVERY = 5
Copies = Sequence[tuple[str, Flags]]


class Aligned(MemoryCluster):
    """A job under `aligned`, of which each unit has these copies; it is fed, and its global checkpoints are stated."""

    def __init__(self, copies: Copies = (("w1", PRIMARY),), count: int = 1_200, made: str = "") -> None:
        super().__init__(made or job("aligned", every_batches=EVERY))
        self.copies_of = dict.fromkeys(self.units, copies)
        for name in dict.fromkeys(name for name, _ in copies):
            self.start(name)
        self.fed, self.number, self.stated = orders(count), 0, [0]
        self.put()

    def put(self, units: Iterable[str] = ()) -> None:
        chosen = list(units) or self.units
        self.place({unit: [(self.workers[name], flags) for name, flags in self.copies_of[unit]] for unit in chosen})

    def run(self, steps: int, *, states: bool = True) -> None:
        """Two orders every 20 ms; what is complete is stated every 100 ms."""
        for step in range(steps):
            feed(self, self.fed[self.number : self.number + 2])
            self.number += 2
            self.turn(20)
            if states and step % 5 == 4:
                self.state()

    def published(self) -> dict[str, Progress]:
        records = self.log.scan(Partition(self.topics.progress, 0))
        return furthest(progress.decode(record.value() or b"") for record in records)

    @property
    def assigned(self) -> Assigned:
        return next(iter(self.workers.values()))._decisions.assigned

    def state(self) -> None:
        policy = in_force(self.plan, self.assigned)
        lines = {unit: self._lines.get(unit, (0, 0))[0] for unit in self.units}
        batch = newest(self.published(), lines, policy.since, self.stated[-1])
        if batch is not None:
            self.stated.append(batch)
            line = max(lines.values())
            made = GlobalCheckpoint(self.plan.job, self.plan.generation, batch, policy.since, line)
            self.append_decision(Assignment("controller", self.now_ms, (), checkpoints=(made,)))

    def append_decision(self, record: Assignment) -> None:
        self._append(Partition(self.cluster.assignments, 0), assignments.encode(record))

    def roll_back(self, units: Sequence[str]) -> int:
        """To the newest global checkpoint."""
        line = 1 + max((line for line, _ in self._lines.values()), default=0)
        self.begin_line(units, line, self.stated[-1])
        self.put(units)
        return self.stated[-1]

    # -- what is in the logs ------------------------------------------------------------------------------------------

    def log_of(self, unit: str) -> Partition:
        partition = next(one.partition for one in self.plan.units if one.name == unit)
        return Partition(self.topics.checkpoints, partition)

    def records_of(self, unit: str) -> list[checkpoints.CheckpointRecord]:
        return [checkpoints.decode(record.value() or b"") for record in self.log.scan(self.log_of(unit))]

    def marker(self, unit: str, batch: int) -> Marker:
        found = [one for one in self.records_of(unit) if isinstance(one, Marker) and one.b == batch]
        return found[-1]

    def frames(self) -> dict[tuple[str, int, int, int, int], list[int]]:
        """Payload hashes by topic, partition, writer, batch and part, in the order of the log."""
        found = defaultdict(list)
        for topic, count in data_topics(self.plan).items():
            for index in range(count):
                for record in self.log.scan(Partition(topic, index)):
                    header = unpack(record.value() or b"")
                    where = topic, index, header.writer, header.batch, header.part
                    found[where].append(header.payload_hash)
        return found

    def finish(self) -> None:
        self.run_to_end()
        check(self.rows, self.fed[: self.number])


def units_of(cluster: Aligned, kind: str) -> list[str]:
    """source: those with source tasks; sink: those that deliver; all."""
    sources = {source.operator for source in cluster.plan.sources}
    every = {one.name: one for one in cluster.plan.units}
    cutting = [name for name, one in every.items() if sources & set(one.operators)]
    delivering = [name for name, one in every.items() if one.delivers and name not in cutting]
    return {"source": cutting, "sink": delivering, "all": list(every), "one": delivering[:1]}[kind]


def test_everything_that_a_restore_at_the_newest_one_needs_is_kept_and_what_is_older_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trimmer, "ANCHOR_MS", 200)
    cluster = Aligned()
    reading = readers(cluster.plan, cluster.topics)
    for _ in range(8):
        cluster.run(15)
        cluster.turn(2)
        k, starts = (
            cluster.assigned.complete(job_key(cluster.plan.job, cluster.plan.generation)),
            cluster.starts_of_data(),
        )
        assert k == cluster.stated[-1] > 0
        for unit in cluster.units:
            rebuilt = rebuild(cluster.log, cluster.log_of(unit), MemoryImage(), line=9, back=k)
            assert rebuilt.marker is not None
            assert (rebuilt.marker.b, rebuilt.log.line) == (k, 9), unit
        for partition, start in starts.items():
            for unit in reading.get(partition, ()):
                positions = {
                    Partition(one.topic, one.partition): one.offset for one in cluster.marker(unit, k).positions
                }
                assert start <= positions[partition], (unit, partition)
    assert max(cluster.starts_of_data().values()) > 0, "nothing was ever trimmed"
    assert min(cluster.log.offsets([cluster.log_of(unit) for unit in cluster.units], "start").values()) > 0
    acked = {unit: one.acked for unit, one in cluster.published().items()}
    assert all(batch in cluster.stated and batch >= cluster.stated[-4] for batch in acked.values())
    cluster.finish()


@pytest.mark.parametrize("kind", ["source", "sink", "one", "all"])
def test_units_that_go_back_compute_the_same_bytes_and_readers_drop_them(kind: str) -> None:
    cluster = Aligned()
    cluster.run(60)
    units = units_of(cluster, kind)
    cluster.run(12, states=False)
    before = {unit: one.processed for unit, one in cluster.published().items()}
    k = cluster.roll_back(units)
    assert all(before[unit] - k >= EVERY for unit in units)
    cluster.turn(1)
    assert all(cluster.published()[unit].processed > k for unit in units), "what was published before counts until then"
    cluster.run(8, states=False)
    again = {where: hashes for where, hashes in cluster.frames().items() if len(hashes) > 1}
    cluster.run(40)
    for unit in units:
        rolled = [one for one in cluster.records_of(unit) if isinstance(one, Rollback)]
        assert [(one.line, one.b) for one in rolled] == [(1, k)], unit
        assert cluster.published()[unit].line == 1
    assert all(len(set(hashes)) == 1 for hashes in again.values())
    if kind in ("source", "all"):
        assert {batch for _, _, _, batch, _ in again} >= set(range(k + 1, k + EVERY))
    assert cluster.stated[-1] > k + 2 * EVERY, "global checkpoints are complete again"
    cluster.finish()


def test_units_go_back_again_and_again() -> None:
    cluster = Aligned()
    cluster.run(40)
    for line in range(1, 6):
        cluster.roll_back(units_of(cluster, ("all", "one", "source", "sink", "all")[line - 1]))
        cluster.run(3 if line == 2 else 30)
    cluster.run(30)
    assert max(one.line for one in cluster.published().values()) == 5
    cluster.finish()


def test_before_the_first_one_is_complete_a_job_goes_back_to_its_start() -> None:
    cluster = Aligned()
    cluster.run(20, states=False)
    assert cluster.roll_back(cluster.units) == 0
    cluster.run(40)
    assert cluster.stated[-1] > 0
    cluster.finish()


@pytest.mark.parametrize("dies", [0, 3, 200])
def test_a_copy_that_fails_on_the_new_line_is_followed_by_one_that_begins_there_too(dies: int) -> None:
    """Before its first marker there the next copy goes back as well; after it, it continues on the line."""
    cluster = Aligned()
    cluster.run(60)
    k = cluster.roll_back(cluster.units)
    cluster.turn(dies)
    cluster.kill("w1")
    cluster.start("w2")
    cluster.copies_of = dict.fromkeys(cluster.units, (("w2", PRIMARY),))
    cluster.put()
    cluster.run(60)
    for unit in cluster.units:
        lines = [one.line for one in cluster.records_of(unit) if isinstance(one, Marker)]
        assert lines == sorted(lines), unit
    assert cluster.stated[-1] > k
    cluster.finish()


@pytest.mark.parametrize("kind", ["one", "all"])
def test_a_standby_goes_back_with_its_leader_and_takes_over_on_the_new_line(kind: str) -> None:
    cluster = Aligned((("w1", PRIMARY), ("w2", STANDBY)))
    cluster.run(60)
    cluster.roll_back(units_of(cluster, kind))
    cluster.run(30)
    cluster.kill("w1")
    cluster.copies_of = dict.fromkeys(cluster.units, (("w2", PRIMARY),))
    cluster.put()
    cluster.run(30)
    cluster.finish()


def test_a_leader_that_has_not_heard_of_the_rollback_is_void_and_the_line_of_the_new_one_counts() -> None:
    """It reads no decisions any more, captures on, and its markers and its trims count for nobody."""
    cluster = Aligned()
    cluster.run(60)
    zombie = cluster.workers["w1"]
    zombie._decisions.read = lambda chunk: False  # type: ignore[method-assign]
    cluster.start("w2")
    cluster.copies_of = dict.fromkeys(cluster.units, (("w2", PRIMARY),))
    k = cluster.roll_back(cluster.units)
    cluster.run(80)
    for unit in cluster.units:
        log = rebuild(cluster.log, cluster.log_of(unit), MemoryImage()).log
        assert log.line == 1, unit
        assert log.last_b > k
    assert all(copy.state in ("restoring", "fenced", "running", "fenced-lost", "ended") for copy in zombie.copies())
    cluster.kill("w1")
    cluster.finish()
