"""What the bench of an incident makes of what it has seen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.model.hashtags import LOST, READS, STAIRCASE
from bench.research.incident import HEALTHY, INTERVAL_MS, Outcome, Seen, _job, area, first_back_s, steps
from bench.research.papers import r7
from bench.research.papers.figure import Verdict, verdict
from holdfast.services.planning.loader import load


def seen(*looks: tuple[float, int, int], healthy: float = 1.0) -> tuple[Seen, ...]:
    """looks: seconds after the failure, workers that have come, available queries."""
    return tuple(Seen(at, arrived, tuple(f"q{n}" for n in range(count)), {}, healthy) for at, arrived, count in looks)


def climbing(stairs: Sequence[int], every_s: float = r7.EVERY_S, late_s: float = 2.0) -> tuple[Seen, ...]:
    """A worker each so many seconds; its queries are there a little later, one before the other."""
    looks, before = [(0.2, 0, 15), (3.0, 0, 0)], 0
    for number, queries in enumerate(stairs, 1):
        at = every_s * number
        looks += [
            (at, number, before),
            (at + late_s - 1, number, max(before, queries - 1)),
            (at + late_s, number, queries),
        ]
        before = queries
    return seen(*looks)


def test_the_staircase_is_what_is_available_before_the_next_worker_comes() -> None:
    """The two queries of a step come back within a second of each other: that is no step of its own."""
    assert steps(climbing(STAIRCASE)) == list(STAIRCASE)
    assert steps(climbing((2, 4, 5, 8, 10, 12, 14, 15))) != list(STAIRCASE)


def test_the_first_query_is_back_once_none_was_there_before() -> None:
    assert first_back_s(climbing(STAIRCASE)) == r7.EVERY_S + 1
    assert first_back_s(seen((0.2, 0, 15), (3.0, 0, 0))) is None


def test_the_area_counts_from_the_first_worker_what_could_have_been_there() -> None:
    assert area(seen((0.0, 0, 0), (10.0, 1, 2), (20.0, 2, 4)), 30.0) == 1.0
    assert area(seen((0.0, 0, 0), (10.0, 1, 0), (15.0, 1, 2)), 20.0) == 0.5
    assert area(seen((0.0, 0, 0)), 20.0) == 0.0


@pytest.mark.parametrize("blocking", [False, True])
def test_the_job_has_one_more_query_in_the_units_of_the_parsers(blocking: bool) -> None:
    spec = load(_job(5, blocking, INTERVAL_MS), "hashtags.yaml")
    assert spec.batch_interval_ms == INTERVAL_MS
    assert set(spec.queries) == {HEALTHY, *(f"q{number}" for number in range(len(READS)))}
    assert ["parser", HEALTHY] in spec.placement.units
    assert (spec.fault_tolerance.buffering, spec.fault_tolerance.checkpoint.policy) == (
        ("source", "aligned") if blocking else ("upstream", "sweep")
    )


def test_the_figure_says_whether_the_targets_are_met() -> None:
    until_s = float(r7.EVERY_S * (LOST + 1))
    blocking = seen((0.2, 0, 15), (3.0, 0, 0), *((r7.EVERY_S * n, n, 0) for n in range(1, 9)), (until_s - 5, 8, 15))
    data = {
        "progressive": r7.values(Outcome(climbing(STAIRCASE), 0, until_s)),
        "blocking": r7.values(Outcome(blocking, 0, until_s)),
    }
    assert verdict(r7.R7.checks(data)) is Verdict.REPRODUCED
    assert all(plot.series for plot in r7.R7.plots(data))
    late = {**data, "progressive": r7.values(Outcome(climbing(STAIRCASE, late_s=0.6 * r7.EVERY_S), 0, until_s))}
    assert [check.what for check in r7.R7.checks(late) if not check.holds] == [
        "area under the curve over that of the most that fit >= 0.9"
    ]
