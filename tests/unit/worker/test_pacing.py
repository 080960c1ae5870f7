"""How far apart batches are under a job's `latency_ms`."""

from __future__ import annotations

import pytest

from holdfast.services.worker.core.cutting import Rhythm
from holdfast.services.worker.core.pacing import DELIVERY_MS, REMEMBERED, SAMPLES, Pace

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


def test_what_a_batch_does_not_take_of_the_budget_is_waited_for_records() -> None:
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


def test_of_batches_reported_together_the_newest_says_how_long_one_takes() -> None:
    pace = Pace(LEAST, 100)
    for batch in (1, 2, 3):
        pace.proposed(batch, batch * 10.0)
    pace.processed(3, 60.0)
    assert pace.rhythm.interval_ms == 100 - DELIVERY_MS - 30


def test_what_is_remembered_is_bounded() -> None:
    pace = Pace(LEAST, 100)
    for batch in range(10 * REMEMBERED):
        pace.proposed(batch, float(batch))
    assert len(pace._under_way) == REMEMBERED
