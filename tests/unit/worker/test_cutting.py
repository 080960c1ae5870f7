"""When a source task proposes its next cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.services.worker.core.cut_rhythm import (
    FULL_LOOK_MS,
    IDLE_CUT_MS,
    LOOK_MS,
    MAX_LEAD_BATCHES,
    MAX_LEAD_BYTES,
    REST_AFTER_MS,
    REST_CUT_MS,
    Lead,
    Reason,
    Rhythm,
    SourceView,
    due,
    wait_ms,
)

RHYTHM = Rhythm(interval_ms=10, max_records=100, max_bytes=10_000)
QUIET = SourceView(batch=5, newest=5, slowest=5, records=0, bytes=0, last_ms=1000, now_ms=1003)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"records": 1}, None),
        ({"records": 1, "now_ms": 1010}, Reason.DUE),
        ({"records": 100}, Reason.FULL),
        ({"records": 1, "bytes": 10_000}, Reason.FULL),
        ({"newest": 6}, Reason.BEHIND),
        ({"at_end": True}, Reason.END),
        ({"now_ms": 1500}, Reason.IDLE),
        ({"now_ms": 1500, "records": 1}, Reason.DUE),
        ({"records": 100, "paused": True}, None),
        ({"newest": 9, "final": True}, None),
        ({"records": 100, "batch": 5 + MAX_LEAD_BATCHES, "newest": 5 + MAX_LEAD_BATCHES}, None),
        ({"records": 100, "newest": 6, "lead": MAX_LEAD_BYTES}, None),
        ({"records": 100, "lead": MAX_LEAD_BYTES - 1}, Reason.FULL),
        ({"records": 100, "full": True}, None),
        ({"at_end": True, "full": True}, None),
        ({"now_ms": 1500, "full": True}, None),
        ({"newest": 6, "full": True}, Reason.BEHIND),
    ],
)
def test_a_cut_is_due_for_a_reason(change: dict[str, float], expected: Reason | None) -> None:
    assert due(replace(QUIET, **change), RHYTHM) is expected  # type: ignore[arg-type]


def test_the_time_until_a_cut_is_due_by_time_alone_is_known() -> None:
    assert wait_ms(QUIET, RHYTHM) == 497
    assert wait_ms(replace(QUIET, records=1), RHYTHM) == 7
    assert wait_ms(replace(QUIET, now_ms=9999), RHYTHM) == 0
    assert wait_ms(replace(QUIET, records=1, full=True), RHYTHM) == FULL_LOOK_MS


@pytest.mark.parametrize(
    "held",
    [
        {"paused": True},
        {"final": True},
        {"slowest": 5 - MAX_LEAD_BATCHES},
        {"lead": MAX_LEAD_BYTES},
    ],
)
def test_a_source_that_may_not_cut_is_not_asked_again_at_once_because_data_wait(held: dict[str, Any]) -> None:
    """A paused job with records waiting kept its worker turning without rest."""
    waiting = replace(QUIET, records=1, now_ms=9999, **held)
    assert due(waiting, RHYTHM) is None
    assert wait_ms(waiting, RHYTHM) >= LOOK_MS >= 20, "fifty looks a second cost little"


def test_a_settled_job_that_had_nothing_for_long_cuts_seldom_and_a_record_at_once() -> None:
    rest = replace(QUIET, settled=True, stirred_ms=0, last_ms=20_000, now_ms=20_000 + IDLE_CUT_MS)
    assert due(rest, RHYTHM) is None
    assert wait_ms(rest, RHYTHM) == REST_CUT_MS - IDLE_CUT_MS
    assert due(replace(rest, now_ms=20_000 + REST_CUT_MS), RHYTHM) is Reason.IDLE
    assert due(replace(rest, records=1), RHYTHM) is Reason.DUE


@pytest.mark.parametrize("change", [{"settled": False}, {"stirred_ms": 20_001 + IDLE_CUT_MS - REST_AFTER_MS}])
def test_while_somebody_may_wait_for_time_to_pass_it_is_cut_as_always(change: dict[str, Any]) -> None:
    rest = replace(QUIET, settled=True, stirred_ms=0, last_ms=20_000, now_ms=20_000 + IDLE_CUT_MS)
    assert due(replace(rest, **change), RHYTHM) is Reason.IDLE


def test_batches_that_every_unit_has_processed_are_ahead_no_more() -> None:
    lead = Lead()
    for batch in (1, 2, 3):
        lead.cut(batch, 10 * batch)
    assert lead.behind(0) == 60
    assert lead.behind(2) == 30
    assert lead.behind(3) == lead.behind(9) == 0
