"""A replay that begins in the middle of a job is compared from the batch on whose state has no earlier part."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.cuts import Cut, CutsSnapshot, Range, TaskCuts
from holdfast.schemas.decided import Id
from holdfast.services.audit.settled_state import SettledState, check_settles
from holdfast.services.kernel.errors import CommandFailed
from tests.unit.planning.jobs import job, plan

COUNTED: dict[str, Any] = {"aggregate": {"c": "count()"}, "key": ["x"], "input": "s"}
WINDOWED = plan(job({"n": COUNTED | {"window": {"size_s": 10}}}))
SECOND_US = 1_000_000
NEWEST_US = 12 * SECOND_US
"""In the window from 10 to 20 s."""


def cut(watermark_us: int, batch: int = 2) -> Cut:
    return Cut("s-0", batch, (Range(0, 5, 6, NEWEST_US),), watermark_us, Id("leader", batch))


def replayed(watermark_us: int) -> SettledState:
    """A replay behind a batch whose newest record has the time NEWEST_US."""
    last = TaskCuts(None, 1, (Range(0, 0, 5, NEWEST_US),), watermark_us, idle=False, final=False)
    return SettledState(WINDOWED, CutsSnapshot(7, {"s-0": last}))


def test_a_job_that_keeps_something_for_ever_has_no_such_batch() -> None:
    check_settles(WINDOWED, 4)
    with pytest.raises(CommandFailed, match="the cut log begins behind batch 4, and what n holds"):
        check_settles(plan(job({"n": COUNTED})), 4)


def test_a_batch_counts_once_the_windows_of_all_earlier_records_have_closed() -> None:
    replay = replayed(NEWEST_US)
    assert not replay.settled([cut(19 * SECOND_US)])
    assert not replay.settled([cut(20 * SECOND_US, 3)]), "the batch that closes them gives their rows"
    assert replay.settled([cut(21 * SECOND_US, 4)])


def test_a_batch_that_is_passed_over_moves_the_watermark_too() -> None:
    replay = replayed(NEWEST_US)
    replay.passes(cut(20 * SECOND_US))
    assert replay.settled([])


def test_nothing_is_missing_where_no_record_came_before() -> None:
    none = TaskCuts(None, 0, (Range(0, 0, 0),), -1, idle=False, final=False)
    assert SettledState(WINDOWED, CutsSnapshot(0, {"s-0": none})).settled([])
