"""Up to where a decided log is trimmed, and where a late reader begins in one that was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.schemas.assignments import Change, Snapshot, Standing
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.snapshots import TRIM_EVERY_US, Trims
from holdfast.services.kernel.errors import Retriable, StateCorrupted
from holdfast.services.log.late import start as late
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.trims import trim, trim_due
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Message
from tests.unit.decisions.test_standings import COPIES, UNITS, WHERE, fold, history_with_snapshots, logged, stated

SAFE_US = 10_000_000


def at(upto: int) -> dict[Partition, int]:
    return {WHERE: upto}


def test_the_log_is_trimmed_to_the_second_newest_snapshot_that_is_old_enough() -> None:
    trims = Trims(SAFE_US)
    for number in range(4):
        trims.agreed(at(10 * number), number * 1_000_000)
    assert trims.due(SAFE_US) is None, "one alone is old enough"
    assert trims.due(SAFE_US + 2_000_000) == at(10)


def test_a_log_is_trimmed_once_to_each_snapshot_and_at_a_bounded_rate() -> None:
    trims = Trims(SAFE_US)
    for number in range(4):
        trims.agreed(at(10 * number), 0)
    assert trims.due(SAFE_US) == at(20)
    trims.agreed(at(40), 0)
    assert trims.due(SAFE_US + TRIM_EVERY_US - 1) is None
    assert trims.due(SAFE_US + TRIM_EVERY_US) == at(30)
    assert trims.due(SAFE_US + 3 * TRIM_EVERY_US) is None
    trims.withdraw()
    assert trims.due(SAFE_US + 4 * TRIM_EVERY_US) == at(30), "it was not carried out"


def test_a_snapshot_of_before_the_newest_is_no_aim() -> None:
    trims = Trims(SAFE_US)
    for upto in (10, 30, 20, 40):
        trims.agreed(at(upto), 0)
    assert trims.due(SAFE_US) == at(30)


def test_none_is_ever_trimmed_where_a_person_says_so() -> None:
    trims = Trims(None)
    for upto in (10, 20, 30):
        trims.agreed(at(upto), 0)
    assert trims.due(10**15) is None


def test_a_trim_that_is_not_answered_is_tried_again_later() -> None:
    log, trims = logged(*history_with_snapshots(20, 5)), Trims(SAFE_US)
    for upto in (4, 9):
        trims.agreed(at(upto), 0)
    log.away.add(WHERE)
    trim_due(log, trims, SAFE_US)
    log.away.clear()
    assert log.offsets([WHERE], "start") == at(0)
    trim_due(log, trims, SAFE_US + TRIM_EVERY_US)
    assert log.offsets([WHERE], "start") == at(4)
    assert not trim(log, at(50)), "above its end: it has lost its tail"


# -- readers ----------------------------------------------------------------------------------------------------------


def test_reading_begins_with_the_snapshot_that_the_log_was_trimmed_to_if_the_newest_is_forged() -> None:
    records = history_with_snapshots(2_000, 300)
    forged = stated(Snapshot(len(records), (Standing(5, Change(UNITS[0], 10**9, COPIES[2])),)))
    log = logged(*records, forged)
    uptos = [record.snapshot.upto for record in records if record.snapshot is not None]
    log.trim(at(uptos[-3]))
    standings = read_standings(log, WHERE)
    assert standings.of_unit(UNITS[0]) == fold(records).of_unit(UNITS[0])
    assert standings.since == uptos[-3]


def test_a_log_that_somebody_else_has_trimmed_says_so() -> None:
    log = logged(*history_with_snapshots(50, 100))
    log.trim(at(10))
    with pytest.raises(StateCorrupted, match="begins at 10, and no snapshot says what was decided below"):
        read_standings(log, WHERE)


class TrimmedMeanwhile(MemoryLog):
    """Each scan but the last is overtaken by a trim."""

    uptos: Iterator[int] = iter(())

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        upto = next(self.uptos, None)
        if upto is not None:
            self.trim(at(upto))
        return super().scan(partition, start)


def test_a_reader_caught_by_a_trim_scans_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late, "LAST_STRETCH", 0)
    records = history_with_snapshots(2_000, 300)
    uptos = [record.snapshot.upto for record in records if record.snapshot is not None]
    log = logged(*records)
    log.__class__ = TrimmedMeanwhile
    log.uptos = iter(uptos[1:3])  # type: ignore[attr-defined]
    assert read_standings(log, WHERE).snapshot() == fold(records).snapshot()
    log.uptos = iter(range(uptos[3], uptos[4]))  # type: ignore[attr-defined]
    with pytest.raises(Retriable, match="trimmed 5 times"):
        read_standings(log, WHERE)
