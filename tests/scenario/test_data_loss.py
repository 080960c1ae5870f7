"""Retention deletes records before they were read: with `on_data_loss: continue` they are cut as lost, and counted."""

from __future__ import annotations

import pytest

from holdfast.schemas import cuts
from holdfast.schemas.assignments import Flags
from holdfast.schemas.cuts import Cut, Range
from holdfast.schemas.topics import Partition
from holdfast.services.worker.sources.waiting_records import Waiting
from tests.support.memory_cluster import MemoryCluster

JOB = """
name: numbers
sources: {numbers: {topic: numbers, fields: {x: int, y: string}, on_data_loss: continue}}
operators: {per_y: {aggregate: {n: "count()", total: "sum(x)"}, key: [y], input: numbers}}
queries: {totals: {input: per_y, sink: {topic: totals}}}
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 100}}
"""
TOPIC = Partition("numbers", 0)
STANDBY = Flags(state="live", receive=True, process=True, send=False, commit=False, checkpoint_target=False)


def cluster(job: str = JOB) -> MemoryCluster:
    made = MemoryCluster(job)
    made.place({unit: [made.start("one")] for unit in made.units})
    return made


def feed(made: MemoryCluster, first: int, last: int) -> None:
    made.feed("numbers", [{"x": x, "y": "a"} for x in range(first, last)])


def ranges(made: MemoryCluster) -> list[Range]:
    """That hold anything."""
    records = [cuts.decode(one.value() or b"") for one in made.log.scan(Partition(made.topics.cuts, 0))]
    return [r for record in records if isinstance(record, Cut) for r in record.ranges if r.stop > r.start]


def counts(made: MemoryCluster, what: str) -> int:
    copies = [copy for worker in made.workers.values() for copy in worker._copies.here.values()]
    return sum(copy.running.condition.counts[what] for copy in copies if copy.running is not None)


def settled(made: MemoryCluster, records: int) -> None:
    """All of these are processed, and in a checkpoint."""
    made.until(lambda: counts(made, "records") == records)
    made.turn(1_000)


def total(made: MemoryCluster) -> tuple[int, int]:
    last = made.rows("totals")[-1]
    return last["n"], last["total"]


def after_an_outage(job: str = JOB) -> MemoryCluster:
    """100 records are processed; while no worker runs 50 come, 20 of them are deleted."""
    made = cluster(job)
    feed(made, 0, 100)
    settled(made, 100)
    made.kill("one")
    feed(made, 100, 150)
    made.log.trim({TOPIC: 120})
    made.place({unit: [made.start("two")] for unit in made.units})
    return made


def test_deleted_records_are_cut_as_lost_and_counted_and_the_rest_is_processed() -> None:
    made = after_an_outage()
    made.until(lambda: counts(made, "records") == 130)
    lost = [r for r in ranges(made) if r.lost]
    assert [(r.start, r.stop, r.lost) for r in lost] == [(100, 120, 20)]
    assert counts(made, "lost") == 20
    made.run_to_end()
    kept = [*range(100), *range(120, 150)]
    assert total(made) == (len(kept), sum(kept))


def test_the_default_is_to_fail() -> None:
    made = after_an_outage(JOB.replace(", on_data_loss: continue", ""))
    made.turn(3_000)
    (copy,) = made.workers["two"].copies()
    assert (copy.state, "deleted records before they were read, offsets 100 to 119 of numbers[0]" in copy.error) == (
        "failed",
        True,
    )
    assert not any(r.lost for r in ranges(made))


def test_a_copy_that_still_holds_what_was_cut_as_lost_does_not_count_it_either() -> None:
    """The standby has fetched the records before they were deleted; the leader, which begins again, has not."""
    made = cluster()
    one, two = made.workers["one"], made.start("two")
    made.place({unit: [one, (two, STANDBY)] for unit in made.units})
    feed(made, 0, 100)
    made.until(lambda: [copy.batch > 0 for copy in two.copies()] == [True] and counts_of(two) == 100)
    made.turn(1_000)
    made.control("pause")
    made.turn(50)
    made.kill("one")
    feed(made, 100, 150)
    made.turn(50)
    made.log.trim({TOPIC: 120})
    three = made.start("three")
    made.place({unit: [three, (two, STANDBY)] for unit in made.units})
    made.turn(200)
    made.control("resume")
    made.until(lambda: counts_of(two) == counts_of(three) == 130)
    made.place({unit: [two] for unit in made.units})
    made.kill("three")
    made.run_to_end()
    kept = [*range(100), *range(120, 150)]
    assert total(made) == (len(kept), sum(kept))


def counts_of(worker: object) -> int:
    running = [copy.running for copy in worker._copies.here.values()]  # type: ignore[attr-defined]
    return sum(one.condition.counts["records"] for one in running if one is not None)


def test_a_unit_fails_if_records_were_deleted_after_their_cut_and_before_a_checkpoint() -> None:
    made = cluster(JOB.replace("interval_ms: 100", "interval_ms: 60000"))
    feed(made, 0, 100)
    made.until(lambda: counts(made, "records") == 100)
    made.kill("one")
    feed(made, 100, 150)
    made.log.trim({TOPIC: 120})
    made.place({unit: [made.start("two")] for unit in made.units})
    made.turn(12_000)
    (copy,) = made.workers["two"].copies()
    assert copy.state == "failed"
    assert "was cut before retention deleted offsets" in copy.error


@pytest.mark.parametrize(
    ("gone", "lost", "left"),
    [
        ([(10, 20)], (10, 20), []),
        ([(5, 20)], (10, 20), [(5, 10)]),
        ([(10, 30)], (10, 20), [(20, 30)]),
        ([(5, 30)], (10, 20), [(5, 10), (20, 30)]),
        ([(30, 40)], (10, 20), [(30, 40)]),
        ([(0, 5), (12, 15)], (10, 20), [(0, 5)]),
    ],
)
def test_a_range_that_a_cut_names_as_lost_no_longer_counts_as_gone(
    gone: list[tuple[int, int]], lost: tuple[int, int], left: list[tuple[int, int]]
) -> None:
    waiting = Waiting(0, 0, 40, gone=list(gone))
    waiting.found_lost(*lost)
    assert waiting.gone == left
    assert waiting.holds(40) == (not left)
