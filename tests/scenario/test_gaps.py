"""Precision `gap`: a copy that takes over skips what its predecessor did, and counts it. MECHANISMS A2, 0102."""

from __future__ import annotations

from unittest import mock

import pytest

from holdfast.schemas import cuts, progress
from holdfast.schemas.assignments import Flags
from holdfast.schemas.checkpoints import SKIPPED
from holdfast.schemas.cuts import Gap
from holdfast.schemas.topics import Partition
from holdfast.services.audit.replay import Report, replay
from holdfast.services.kernel.dataflow.sink_records import RowsOf
from holdfast.services.recovery.core.unit.facts.terms import terms
from holdfast.services.worker.unit.batches.gap_skip import GapSkip
from tests.support.memory_cluster import MemoryCluster

JOB = """
name: sums
keep_cuts: true
batch_interval_ms: 5
fault_tolerance: {default: {scheme: none}, precision: gap, checkpoint: {interval_ms: 60000}}
sources:
  s: {topic: s, fields: {k: string, x: int}}
operators:
  sums: {aggregate: {n: "count()", total: "sum(x)"}, key: [k], input: s}
queries:
  sums: {input: sums, sink: {topic: sums}}
"""
CHAIN = JOB.replace("name: sums", "name: chain").replace(
    '  sums: {aggregate: {n: "count()", total: "sum(x)"}, key: [k], input: s}',
    '  first: {aggregate: {c: "count()"}, key: [k], input: s}\n'
    '  sums: {aggregate: {n: "count()", total: "sum(c)"}, key: [c], input: first, parallelism: 2}',
)
HOT = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)
BEFORE, AFTER = 200, 100


def feed(cluster: MemoryCluster, count: int) -> None:
    """Some at a time, so that there are batches."""
    for start in range(0, count, 5):
        cluster.feed("s", [{"k": f"k{n % 7}", "x": n} for n in range(start, start + 5)])
        cluster.turn(6)


def started(job: str = JOB) -> MemoryCluster:
    """One worker has processed and delivered some records, and its newest checkpoint is old."""
    cluster = MemoryCluster(job)
    cluster.place({unit: [cluster.start("w1")] for unit in cluster.units})
    feed(cluster, BEFORE)
    cluster.turn(200)
    return cluster


def taken_over(cluster: MemoryCluster, name: str = "w2") -> MemoryCluster:
    """Its worker is gone; another one takes all units."""
    cluster.workers.clear()
    cluster.place({unit: [cluster.start(name)] for unit in cluster.units})
    return cluster


def ended(cluster: MemoryCluster) -> Report:
    feed(cluster, AFTER)
    cluster.run_to_end()
    return replay(cluster.log, cluster.cluster, cluster.plan.job)


def lost(cluster: MemoryCluster) -> int:
    """As status shows it: of all units, by their newest progress."""
    newest: dict[str, int] = {}
    for message in cluster.log.scan(Partition(cluster.topics.progress, 0)):
        said = progress.decode(message.value() or b"")
        newest[said.unit] = said.lost
    return sum(newest.values())


def gaps(cluster: MemoryCluster) -> list[Gap]:
    records = (cuts.decode(m.value() or b"") for m in cluster.log.scan(Partition(cluster.topics.cuts, 0)))
    return [record for record in records if isinstance(record, Gap)]


def counted(cluster: MemoryCluster) -> int:
    """Records that the results hold: the newest row of each key has its count."""
    return sum({row["k"]: row["n"] for row in cluster.rows("sums")}.values())


def test_records_of_the_predecessor_are_skipped_and_counted_exactly() -> None:
    cluster = taken_over(started())
    report = ended(cluster)
    assert report.exact, report
    (gap,) = gaps(cluster)
    assert gap.after == 0
    assert gap.records == lost(cluster) == BEFORE
    assert counted(cluster) == AFTER
    assert "skipped 200 records" in report.notes[-1]


def test_sinks_say_in_a_header_how_many_records_their_rows_lack() -> None:
    cluster = started()
    before = len(cluster.rows("sums"))
    taken_over(cluster)
    ended(cluster)
    headers = [dict(m.headers() or ()) for m in cluster.log.scan(Partition("sums", 0))]
    assert all(SKIPPED not in one for one in headers[:before])
    assert [one[SKIPPED] for one in headers[before:]] == [str(BEFORE).encode()] * (len(headers) - before)
    assert RowsOf("sums", "g", "sums").headers(1) == RowsOf("sums", "g", "sums").headers(1, 0)


def test_a_standby_that_holds_its_inputs_skips_from_its_image() -> None:
    cluster = MemoryCluster(JOB.replace("60000", "100"))
    first, second = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [first, (second, HOT)] for unit in cluster.units})
    feed(cluster, BEFORE)
    cluster.kill("w1")
    cluster.place({unit: [second] for unit in cluster.units})
    report = ended(cluster)
    assert report.exact, report
    skipped = sum(gap.records for gap in gaps(cluster))
    assert 0 < skipped == lost(cluster) < BEFORE
    assert counted(cluster) == BEFORE + AFTER - skipped


def test_two_takeovers_add_up() -> None:
    cluster = taken_over(started())
    feed(cluster, BEFORE)
    cluster.turn(200)
    report = ended(taken_over(cluster, "w3"))
    assert report.exact, report
    first, second = gaps_once(cluster)
    assert (first.upto, second.records) == (second.after, BEFORE)
    assert lost(cluster) == 2 * BEFORE
    assert counted(cluster) == AFTER


def gaps_once(cluster: MemoryCluster) -> list[Gap]:
    """A fact may be stated more than once."""
    return list({gap.after: gap for gap in gaps(cluster)}.values())


def test_a_copy_that_dies_before_it_has_noted_what_it_skipped_leaves_that_to_the_next_one() -> None:
    cluster = started()
    with mock.patch.object(GapSkip, "_note"):
        taken_over(cluster).turn(300)
        assert not gaps(cluster)
    report = ended(taken_over(cluster, "w3"))
    assert report.exact, report
    assert [gap.records for gap in gaps(cluster)] == [BEFORE]
    assert lost(cluster) == BEFORE


def test_a_former_leader_that_still_runs_goes_back_to_the_gap() -> None:
    """It has done what its successor has skipped: its state is another one, whatever it checkpoints is refused."""
    cluster = MemoryCluster(JOB)
    zombie = cluster.start("w1")
    cluster.place({unit: [zombie] for unit in cluster.units})
    feed(cluster, BEFORE)
    zombie._control.hold(zombie, Partition(cluster.cluster.assignments, 0), True)
    cluster.place({unit: [cluster.start("w2")] for unit in cluster.units})
    feed(cluster, 50)
    cluster.turn(300)
    zombie._control.hold(zombie, Partition(cluster.cluster.assignments, 0), False)
    report = ended(cluster)
    assert report.exact, report
    assert counted(cluster) == BEFORE + 50 + AFTER - lost(cluster)


def test_nothing_is_skipped_at_the_end_of_the_input() -> None:
    """The last batches close what is open."""
    cluster = started()
    cluster.control("drain")
    cluster.turn(4)
    taken_over(cluster)
    cluster.until(cluster.ended)
    assert replay(cluster.log, cluster.cluster, "sums").exact
    assert counted(cluster) == BEFORE - lost(cluster)


def test_only_the_last_unit_of_a_chain_skips_and_the_job_says_so() -> None:
    cluster = taken_over(started(CHAIN))
    report = ended(cluster)
    assert report.exact, report
    assert {gap.unit for gap in gaps(cluster)} == {"sums-0", "sums-1"}
    (warning,) = [one for one in cluster.plan.warnings if "precision" in one]
    assert warning.endswith("recovers exactly, and not with a gap: it feeds other units")


def test_the_promise_of_an_adaptive_unit_that_recovers_with_a_gap_is_not_exact() -> None:
    found = terms(MemoryCluster(CHAIN).plan)
    assert {key.rpartition("/")[2]: one.promise.exact for key, one in found.items()} == {
        "s-0": True, "sums-0": False, "sums-1": False,
    }  # fmt: skip


@pytest.mark.parametrize("job", [JOB.replace("precision: gap", "precision: exact"), JOB.replace(
    "interval_ms: 60000", "policy: aligned, every_batches: 5000")])  # fmt: skip
def test_otherwise_everything_is_replayed(job: str) -> None:
    cluster = taken_over(started(job))
    report = ended(cluster)
    assert report.exact
    assert (gaps(cluster), lost(cluster), counted(cluster)) == ([], 0, BEFORE + AFTER)
