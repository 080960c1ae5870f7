"""Distance between batches: under a `latency_ms`, and while batches take long."""

from __future__ import annotations

import pytest

from holdfast.services.worker.core.cut_rhythm import Rhythm
from holdfast.services.worker.core.pace import (
    DELIVERY_MS,
    GAPS,
    MOST_MS,
    REMEMBERED,
    REST_MS,
    ROOM_MS,
    SAMPLES,
    SELDOM_MS,
    WAITS_MOST_MS,
    WAITS_MS,
    Pace,
    Spacing,
)

LEAST = Rhythm(interval_ms=10, max_records=100, max_bytes=10_000)


def through(pace: Pace, first: int, *took_ms: float) -> None:
    """Batches one after the other, each through the job before the next."""
    for batch, one in enumerate(took_ms, first):
        pace.proposed(batch, batch * 1000.0)
        pace.processed(batch, batch * 1000.0 + one)


def test_without_a_budget_batches_are_as_often_as_the_job_says() -> None:
    pace = Pace(LEAST, None)
    through(pace, 1, 20.0, 30.0)
    assert pace.rhythm is LEAST


def test_time_that_a_batch_leaves_of_the_budget_is_waited_for_records() -> None:
    pace = Pace(LEAST, 100)
    assert pace.rhythm is LEAST, "nobody knows yet how long a batch takes"
    through(pace, 1, 90.0, 35.0, 120.0)
    assert pace.rhythm == Rhythm(100 - int(DELIVERY_MS) - 35, LEAST.max_records, LEAST.max_bytes)


@pytest.mark.parametrize("took_ms", [80.0, 500.0])
def test_batches_that_take_the_budget_are_as_often_as_without_one(took_ms: float) -> None:
    pace = Pace(LEAST, 100)
    through(pace, 1, took_ms)
    assert pace.rhythm.interval_ms == LEAST.interval_ms


def test_a_job_that_becomes_slower_is_given_less_time_between_batches() -> None:
    pace = Pace(LEAST, 200)
    through(pace, 1, *[20.0] * SAMPLES)
    assert pace.rhythm.interval_ms == 200 - DELIVERY_MS - 20
    through(pace, 100, *[80.0] * (SAMPLES - 1))
    assert pace.rhythm.interval_ms == 200 - DELIVERY_MS - 20, "one report may have come late by chance, all of them not"
    through(pace, 200, 80.0)
    assert pace.rhythm.interval_ms == 200 - DELIVERY_MS - 80


def test_the_newest_of_batches_reported_together_says_how_long_one_takes() -> None:
    pace = Pace(LEAST, 100)
    for batch in (1, 2, 3):
        pace.proposed(batch, batch * 10.0)
    pace.processed(3, 60.0)
    assert pace.rhythm.interval_ms == 100 - DELIVERY_MS - 30


def test_remembered_history_is_bounded() -> None:
    pace = Pace(LEAST, 100)
    for batch in range(10 * REMEMBERED):
        pace.proposed(batch, float(batch))
    assert len(pace._under_way) == REMEMBERED


def stretching() -> Pace:
    return Pace(LEAST, None, stretches=True)


def test_batches_that_are_through_soon_are_as_often_as_can_be() -> None:
    pace = stretching()
    through(pace, 1, *[ROOM_MS] * SAMPLES)
    assert pace.rhythm is LEAST


def test_batches_that_take_long_are_further_apart_and_again_as_often_once_there_is_room() -> None:
    pace = stretching()
    through(pace, 1, *[300.0] * SAMPLES)
    assert pace.rhythm == Rhythm(int(300 - ROOM_MS), LEAST.max_records, LEAST.max_bytes)
    through(pace, 100, *[20.0] * SAMPLES)
    assert pace.rhythm == LEAST


def test_a_single_slow_batch_changes_nothing() -> None:
    pace = stretching()
    through(pace, 1, *[20.0] * SAMPLES, 900.0)
    assert pace.rhythm.interval_ms == LEAST.interval_ms


def test_batches_are_at_most_a_second_apart() -> None:
    pace = stretching()
    through(pace, 1, *[60_000.0] * SAMPLES)
    assert pace.rhythm.interval_ms == MOST_MS


@pytest.mark.parametrize(
    ("waits_ms", "interval_ms"), [(ROOM_MS + WAITS_MS, 10), (ROOM_MS + WAITS_MS + 90, 90), (10_000.0, WAITS_MOST_MS)]
)
def test_while_a_batch_waits_for_a_unit_fewer_follow_it(waits_ms: float, interval_ms: float) -> None:
    pace = stretching()
    through(pace, 1, *[20.0] * SAMPLES)
    pace.proposed(50, 0.0)
    pace.processed(49, waits_ms)
    assert pace.rhythm.interval_ms == interval_ms
    pace.processed(50, waits_ms + 1)
    assert pace.rhythm.interval_ms == LEAST.interval_ms


def test_a_budget_that_cannot_be_kept_makes_batches_rare_not_frequent() -> None:
    pace = Pace(LEAST, 100, stretches=True)
    through(pace, 1, *[40.0] * SAMPLES)
    assert pace.rhythm.interval_ms == 100 - DELIVERY_MS - 40
    through(pace, 100, *[350.0] * SAMPLES)
    assert pace.rhythm.interval_ms == 250, "what a batch takes beyond its budget"


def spaced(spacing: Spacing, first: int, *gaps_ms: float, from_ms: float = 0.0) -> float:
    """Cuts with these times between them; the time of the last one."""
    now_ms = from_ms
    for batch, gap_ms in enumerate(gaps_ms, first):
        now_ms += gap_ms
        spacing.batch(batch, now_ms)
        spacing.batch(batch, now_ms + 1.0)  # another task's cut of the same batch
    return now_ms


def test_records_are_read_on_demand_while_batches_are_far_apart() -> None:
    spacing = Spacing()
    now_ms = spaced(spacing, 1, *[20.0] * GAPS)
    assert not spacing.changes(now_ms)
    now_ms = spaced(spacing, 100, *[SELDOM_MS] * GAPS, from_ms=now_ms)
    assert (spacing.changes(now_ms), spacing.seldom, spacing.changes(now_ms)) == (True, True, False)
    now_ms = spaced(spacing, 200, 10.0, 10.0, from_ms=now_ms)
    assert not spacing.changes(now_ms), "two batches that followed at once do not count"
    now_ms = spaced(spacing, 300, *[10.0] * GAPS, from_ms=now_ms)
    assert (spacing.changes(now_ms), spacing.seldom) == (True, False)


def test_after_a_rest_records_are_read_as_they_come() -> None:
    spacing = Spacing()
    now_ms = spaced(spacing, 1, *[SELDOM_MS] * (GAPS + 1))
    assert spacing.changes(now_ms)
    assert not spacing.changes(now_ms + REST_MS)
    assert spacing.changes(now_ms + REST_MS + 1)
    assert not spacing.seldom
