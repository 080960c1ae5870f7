"""The benchmark's own arithmetic: medians, targets, hops, rates."""

from __future__ import annotations

import pytest

from bench.measures.throughput import per_second
from bench.options import parse
from bench.rig.figures import at_least, at_most, medians, middle_slope, percentile, rows, slope, spread
from bench.rig.followed import Followed, MeasureFailed, Reached, Refused
from bench.rig.hops import CutAt, batch_delays, pauses, split
from holdfast.schemas import plans
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Problem, Rejection, Status
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.log.memory import MemoryLog


def test_a_median_is_over_the_runs_that_have_the_figure() -> None:
    assert medians([{"a": 1}, {"a": 3, "b": 5}, {"a": 10}]) == {"a": 3, "b": 5}


def test_a_percentile_is_a_value_that_occurs() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert spread([7.0], "ms") == {"p50_ms": 7, "p95_ms": 7, "p99_ms": 7, "max_ms": 7}


def test_a_line_says_whether_the_median_meets_its_target() -> None:
    runs = [{"rate": 90, "delay_ms": 4.0, "rows": 1}, {"rate": 120, "delay_ms": 6.0, "rows": 1}]
    lines = rows("m", runs, {"rate": at_least(100), "delay_ms": at_most(4.5)})
    assert lines == [
        ("m", "rate", "105", ">= 100", "yes", "90, 120"),
        ("m", "delay_ms", "5", "<= 4.5", "NO", "4, 6"),
        ("m", "rows", "1", "", "", "1, 1"),
    ]


def test_the_hops_of_a_record_add_up_to_its_delay() -> None:
    cuts = [CutAt(1, 0, 2, 10.0), CutAt(2, 2, 3, 30.0), CutAt(3, 3, 4, 50.0)]
    found = split(
        [0.0, 4.0, 20.0, 40.0],
        cuts,
        {"source": {1: 12, 2: 33, 3: 51}, "row": {1: 15, 2: 40}},  # batch 3 has no row: it does not count
        {1: 17, 2: 42, 3: 60},
    )
    hops = {name: value for name, value in found.items() if name.startswith("mean_")}
    assert list(hops) == ["mean_append_to_cut_ms", "mean_to_source_ms", "mean_to_row_ms", "mean_to_reader_ms"]
    assert found["records"] == 3
    assert found["max_ms"] == 22
    assert sum(hops.values()) == pytest.approx((17 + 13 + 22) / 3, abs=0.2)


def test_a_batch_is_as_late_as_its_first_record() -> None:
    cuts = [CutAt(1, 0, 2, 10.0), CutAt(2, 2, 2, 20.0), CutAt(3, 2, 3, 30.0)]
    assert batch_delays([0.0, 9.0, 25.0], cuts, {1: 12, 2: 21, 3: 33}) == [12, 8]
    assert pauses({3: 33, 1: 12, 2: 21}) == [9, 12]


def test_a_rate_leaves_out_what_came_before_the_first_progress() -> None:
    reached = [Reached(0, 0), Reached(1000, 50), Reached(1500, 100), Reached(2000, 150)]
    assert per_second(reached) == 100
    with pytest.raises(MeasureFailed, match="more --records"):
        per_second([Reached(0, 0), Reached(1000, 50)])


def test_a_slope_is_that_of_the_line_through_the_points() -> None:
    assert slope([(0, 1), (1, 3), (2, 5)]) == pytest.approx(2)
    assert slope([(0, 1)]) == 0


def test_a_far_point_does_not_move_the_middle_slope() -> None:
    assert middle_slope([(0, 1), (1, 3), (2, 5), (2, 500)]) == pytest.approx(2)
    assert middle_slope([(1, 1), (1, 2)]) == 0


def test_disk_runs_only_when_it_is_named_and_quick_is_smaller() -> None:
    assert "disk" not in [measure.name for measure in parse([]).measures]
    assert [measure.name for measure in parse(["disk", "filter"]).measures] == ["filter", "disk"]
    assert parse(["--quick"]).scale.records < parse([]).scale.records
    assert parse(["--quick", "--records", "7_000"]).scale.records == 7000
    with pytest.raises(SystemExit):
        parse(["nothing"])


def followed(*records: tuple[str, plans.Decision | Status]) -> Followed:
    log, topics = MemoryLog(lambda: 0), ClusterTopics()
    log.create(topics.specs())
    job, appender = Followed(log, log.reader("test"), topics, "one"), log.appender("test")
    for topic, record in records:
        appender.append(Partition(topic, 0), plans.encode(record))
    appender.flush(1)
    return job


def test_a_job_that_fails_ends_the_wait_for_it_with_its_error() -> None:
    others = Status("other", "1-abc", "failed", 0, error="not ours")
    ours = Status("one", "2-abc", "failed", 0, error="division by zero")
    job = followed((ClusterTopics().status, others), (ClusterTopics().status, ours))
    with pytest.raises(MeasureFailed, match="one failed: division by zero"):
        job.until(lambda: False, "unreached", 5)


def test_a_job_that_is_not_admitted_is_refused_with_its_problems() -> None:
    rejection = Rejection("one", "1-abc", Id("a", 1), (Problem("sources.events", "no such topic"),))
    with pytest.raises(Refused, match=r"sources\.events: no such topic"):
        followed((ClusterTopics().plans, rejection)).await_admission()


def test_a_wait_has_an_end() -> None:
    with pytest.raises(MeasureFailed, match="one: it does not run after 0"):
        followed().until(lambda: False, "it does not run", 0.05)
