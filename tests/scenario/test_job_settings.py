"""Settings of a job that say when rows go out, and when a job fails: workers on a log in memory."""

from __future__ import annotations

from itertools import pairwise

import pytest
import xxhash

from holdfast.schemas import cuts, delivered
from holdfast.schemas.assignments import Flags
from holdfast.schemas.cuts import Cut
from holdfast.schemas.formats import FIRST
from holdfast.schemas.frames import Header
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.dataflow.input_partition import InputPartition
from holdfast.services.kernel.errors import Divergence
from holdfast.services.worker.host.job import FIRST_RECORDS
from tests.support.memory_cluster import MemoryCluster

JOB = """
name: numbers
sources: {numbers: {topic: numbers, fields: {x: int}}}
operators: {kept: {filter: "x >= 0", input: numbers}}
fault_tolerance: {default: {scheme: none}}
queries: {kept: {input: kept, sink: {topic: kept}}}
"""


def cluster(job: str) -> MemoryCluster:
    made = MemoryCluster(job)
    made.place({unit: [made.start("one")] for unit in made.units})
    made.turn(20)
    return made


def feed_slowly(made: MemoryCluster, turns: int) -> None:
    """A record every 10 ms."""
    for number in range(turns // 10):
        made.feed("numbers", [{"x": number}])
        made.turn(10)


def commits(made: MemoryCluster) -> list[int]:
    """The last batch of each transaction."""
    partition = Partition(made.topics.delivered, 0)
    return [delivered.decode(one.value() or b"").batch for one in made.log.scan(partition)]


def cut_ms(made: MemoryCluster) -> dict[int, int]:
    """By batch."""
    records = [cuts.decode(one.value() or b"") for one in made.log.scan(Partition(made.topics.cuts, 0))]
    return {one.batch: one.time_ms - made.day_ms for one in records if isinstance(one, Cut)}


# -- latency_ms -------------------------------------------------------------------------------------------------------


def test_batches_are_as_far_apart_as_the_latency_budget_allows_and_no_result_comes_later() -> None:
    often, seldom = cluster(JOB), cluster(f"{JOB}latency_ms: 100\n")
    for made in (often, seldom):
        feed_slowly(made, 2_000)
        made.run_to_end()
        assert [row["x"] for row in made.rows("kept")] == list(range(200))
    few, many = (len(cut_ms(made)) for made in (seldom, often))
    assert many > 150
    assert 2_000 / 100 < few < many / 5


def test_a_standby_under_a_latency_budget_follows_and_takes_over() -> None:
    made = MemoryCluster(f"{JOB}latency_ms: 100\n")
    one, two = made.start("one"), made.start("two")
    made.place({unit: [one, (two, Flags(commit=False))] for unit in made.units})
    made.turn(20)
    feed_slowly(made, 1_500)
    led, followed = ({copy.unit: copy.batch for copy in worker.copies()} for worker in (one, two))
    assert all(followed[unit] >= led[unit] - 5 > 5 for unit in led)
    made.kill("one")
    made.place({unit: [two] for unit in made.units})
    made.run_to_end()
    assert [row["x"] for row in made.rows("kept")] == list(range(150))


# -- commit_interval_ms -----------------------------------------------------------------------------------------------


def test_rows_gather_for_the_commit_interval_and_go_at_once_at_the_end() -> None:
    made = cluster(JOB.replace("{topic: kept}", "{topic: kept, commit_interval_ms: 300}"))
    feed_slowly(made, 2_000)
    times = cut_ms(made)
    gaps = [times[after] - times[before] for before, after in pairwise(commits(made))]
    assert len(gaps) >= 5
    assert min(gaps) >= 280
    made.control("drain")
    began_ms = made.now_ms
    made.until(made.ended)
    assert made.now_ms - began_ms < 250
    assert [row["x"] for row in made.rows("kept")] == list(range(200))


def test_without_an_interval_every_batch_with_rows_goes_at_once() -> None:
    made = cluster(JOB)
    feed_slowly(made, 500)
    assert len(commits(made)) >= 45


def test_a_takeover_delivers_what_had_gathered_once() -> None:
    made = cluster(JOB.replace("{topic: kept}", "{topic: kept, commit_interval_ms: 500}"))
    feed_slowly(made, 700)
    made.kill("one")
    two = made.start("two")
    made.place({unit: [two] for unit in made.units})
    feed_slowly(made, 300)
    made.run_to_end()
    assert sorted(row["x"] for row in made.rows("kept")) == sorted([*range(70), *range(30)])


# -- dead_letter_share ------------------------------------------------------------------------------------------------


def failure(made: MemoryCluster) -> str:
    made.turn(200)
    return next((copy.error for copy in made.workers["one"].copies() if copy.state == "failed"), "")


@pytest.mark.parametrize(("bad", "fails"), [(FIRST_RECORDS // 10, False), (FIRST_RECORDS // 10 + 1, True)])
def test_a_larger_share_of_dead_letters_than_allowed_fails_the_job(bad: int, fails: bool) -> None:
    made = cluster(f"{JOB}dead_letter_share: 0.1\n")
    made.feed("numbers", [b"{"] * bad)
    made.feed("numbers", [{"x": 1}] * (FIRST_RECORDS // 2))
    said = failure(made)
    assert bool(said) == fails
    assert not fails or "more than dead_letter_share 0.1 allows: `holdfast dead-letters numbers`" in said


def test_the_first_dead_letter_fails_a_job_that_allows_none() -> None:
    made = cluster(f"{JOB}dead_letter_share: 0\n")
    made.feed("numbers", [{"x": 1}] * 10)
    assert failure(made) == ""
    made.feed("numbers", [b"{"])
    assert "1 dead letter of 11 records" in failure(made)


def test_by_default_any_share_is_allowed() -> None:
    made = cluster(JOB)
    made.feed("numbers", [b"{"] * 2 * FIRST_RECORDS)
    assert failure(made) == ""


# -- on_divergence ----------------------------------------------------------------------------------------------------


def frame(batch: int, payload: bytes) -> bytes:
    return Header(FIRST, 0, 0, 1, batch, 0, 1, 0, 1, 0, xxhash.xxh3_64_intdigest(payload)).pack() + payload


def test_two_frames_that_differ_stop_the_copy_or_the_first_one_counts() -> None:
    refused: list[str] = []
    strict = InputPartition("in[0]", [0], 1, 0, 0)
    lax = InputPartition("in[0]", [0], 1, 0, 0, refuse=lambda _, cause: refused.append(cause), strict=False)
    for one in (strict, lax):
        assert one.offer(0, frame(1, b"rows"))
    with pytest.raises(Divergence, match="not a pure function"):
        strict.offer(1, frame(1, b"other"))
    assert not lax.offer(1, frame(1, b"other"))
    assert ["the first frame counts" in one for one in refused] == [True]
    assert lax.ready(1)


@pytest.mark.parametrize(("said", "strict"), [("", True), ("on_divergence: continue\n", False)])
def test_a_job_says_what_a_divergence_does(said: str, strict: bool) -> None:
    made = cluster(JOB.replace("input: numbers}", "input: numbers, parallelism: 2}") + said)
    partitions = [
        partition
        for copy in made.workers["one"]._copies.here.values()
        if copy.running is not None
        for partition in copy.running.intake.inputs._partitions.values()
    ]
    assert [one._strict for one in partitions] == [strict] * len(partitions)
    assert partitions


# -- memory_limit_mb --------------------------------------------------------------------------------------------------

TOTALS = """
name: totals
sources: {numbers: {topic: numbers, fields: {x: string}}}
operators: {totals: {aggregate: {n: "count()"}, key: [x], input: numbers}}
fault_tolerance: {default: {scheme: none}}
queries: {totals: {input: totals, sink: {topic: totals}}}
"""


@pytest.mark.parametrize(("limit", "fails"), [("", False), ("memory_limit_mb: 1\n", True)])
def test_a_unit_with_more_state_than_its_job_allows_fails_the_job(limit: str, fails: bool) -> None:
    made = cluster(TOTALS + limit)
    size = 0
    for number in range(20):
        made.feed("numbers", [{"x": f"{500 * number + one:0200}"} for one in range(500)])
        made.turn(100)
        size = max(size, *(one.state_bytes for one in made.workers["one"].costs(made.workers["one"]._copies.here)))
    said = failure(made)
    assert size > 1024 * 1024
    assert bool(said) == fails
    assert not fails or said.startswith("the state of unit numbers-0 takes 1.")
    assert not fails or "more than memory_limit_mb 1 allows" in said


def test_a_unit_within_its_limit_runs_on() -> None:
    made = cluster(f"{TOTALS}memory_limit_mb: 1\n")
    for _ in range(20):
        made.feed("numbers", [{"x": f"{one:0200}"} for one in range(500)])
        made.turn(100)
    assert failure(made) == ""
