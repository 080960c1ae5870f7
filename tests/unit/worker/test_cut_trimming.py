"""PROTOCOL 3 and 7: when the cut log gets a snapshot, and up to which one it may be trimmed."""

from __future__ import annotations

import pytest

from holdfast.schemas.checkpoints import Position
from holdfast.schemas.cuts import KnownSnapshot
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition
from holdfast.services.worker.core.cut_trims import FEWEST_RECORDS, RECORDS_A_TASK, UNANSWERED_MS, CutTrims

CUTS = Partition("holdfast.j.1-aaaaaa.cuts", 0)
ENOUGH = FEWEST_RECORDS + RECORDS_A_TASK
HOUR_MS = 3_600_000


def progress(unit: str, upto: int, batch: int = 5) -> dict[str, Progress]:
    return {unit: Progress(unit, batch, batch, (Position(CUTS.topic, 0, upto),))}


def test_a_log_is_trimmed_to_a_snapshot_below_every_restart_position() -> None:
    core = CutTrims(CUTS, horizon_ms=0, tasks=2)
    known = [KnownSnapshot(100, 1), KnownSnapshot(200, 2), KnownSnapshot(300, 3)]
    both = progress("u-0", 310) | progress("u-1", 250)
    assert core.upto(known, ("u-0", "u-1"), both, now_ms=10) == 200


def test_a_log_is_not_trimmed_while_a_unit_has_no_valid_marker() -> None:
    core = CutTrims(CUTS, horizon_ms=0, tasks=2)
    assert core.upto([KnownSnapshot(100, 1)], ("u-0", "u-1"), progress("u-0", 310), now_ms=10) is None
    silent = progress("u-0", 310) | {"u-1": Progress("u-1", 0, 0)}
    assert core.upto([KnownSnapshot(100, 1)], ("u-0", "u-1"), silent, now_ms=10) is None


def test_cuts_are_not_trimmed_to_a_snapshot_younger_than_the_horizon() -> None:
    core = CutTrims(CUTS, horizon_ms=HOUR_MS, tasks=1)
    known = [KnownSnapshot(100, 1_000), KnownSnapshot(200, 2_000)]
    assert core.upto(known, ("u-0",), progress("u-0", 310), now_ms=HOUR_MS + 1_999) == 100
    assert core.upto(known, ("u-0",), progress("u-0", 310), now_ms=HOUR_MS + 2_000) == 200


def test_nothing_is_trimmed_twice() -> None:
    core = CutTrims(CUTS, horizon_ms=0, tasks=1, trimmed=100)
    assert core.upto([KnownSnapshot(100, 1)], ("u-0",), progress("u-0", 310), now_ms=10) is None


def test_a_snapshot_is_due_after_so_many_records_and_so_long() -> None:
    core = CutTrims(CUTS, horizon_ms=HOUR_MS, tasks=1)
    assert core.spacing_ms == 300_000
    last = [KnownSnapshot(1_000, 50_000)]
    assert not core.snapshot_due(last, 1_000 + ENOUGH - 1, 50_000 + 300_000)
    assert not core.snapshot_due(last, 1_000 + ENOUGH, 50_000 + 299_999)
    assert core.snapshot_due(last, 1_000 + ENOUGH, 50_000 + 300_000)


def test_a_snapshot_on_its_way_is_not_written_again_until_it_is_overdue() -> None:
    core = CutTrims(CUTS, horizon_ms=0, tasks=1)
    now_ms = 1_000_000
    core.proposed(ENOUGH, now_ms)
    assert not core.snapshot_due([], 2 * ENOUGH, now_ms + UNANSWERED_MS - 1)
    assert core.snapshot_due([], 2 * ENOUGH, now_ms + UNANSWERED_MS)


def test_once_read_back_the_next_one_may_follow() -> None:
    core = CutTrims(CUTS, horizon_ms=0, tasks=1)
    core.proposed(ENOUGH, 1_000_000)
    read = [KnownSnapshot(ENOUGH, 1_000_000)]
    assert not core.snapshot_due(read, 3 * ENOUGH, 1_000_999)
    assert core.snapshot_due(read, 3 * ENOUGH, 1_001_000)


@pytest.mark.parametrize(("horizon_s", "spacing_s"), [(0, 1), (60, 5), (3600, 300), (86_400, 300)])
def test_snapshots_are_a_part_of_the_horizon_apart(horizon_s: float, spacing_s: float) -> None:
    assert CutTrims(CUTS, horizon_ms=horizon_s * 1000, tasks=1).spacing_ms == spacing_s * 1000
