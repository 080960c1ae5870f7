"""Decision 0102: a replay computes skipped batches for what was delivered of them, and then forgets their state."""

from __future__ import annotations

from holdfast.schemas.cuts import Gap
from holdfast.services.audit.skipped_batches import SkippedBatches
from holdfast.services.kernel.state.image import MemoryImage

GAP = Gap("count-0", after=4, upto=7, delivered=5, records=30)


def skipping(first: int = 0) -> SkippedBatches:
    made = SkippedBatches("count-0")
    made.know([GAP], first)
    return made


def image(value: bytes) -> MemoryImage:
    made = MemoryImage()
    made.apply([(b"key", value)])
    return made


def test_rows_behind_the_last_delivered_batch_of_a_gap_are_skipped() -> None:
    made = skipping()
    assert [made.begins(batch) for batch in (3, 4, 5)] == [False, True, False]
    made.keep(4, MemoryImage(), {})
    assert [made.skips(batch, 10) for batch in (5, 6, 7)] == [False, True, True]


def test_the_state_before_the_gap_returns_behind_its_last_batch() -> None:
    made, live = skipping(), image(b"before")
    made.keep(4, live, {"count-0": 9})
    live.apply([(b"key", b"skipped")])
    made.skips(5, 30)
    assert made.ends(6) is None
    before = made.ends(7)
    assert before is not None
    assert (list(before.image.scan(b"")), before.watermarks) == ([(b"key", b"before")], {"count-0": 9})
    assert not made.skipping
    assert made.miscounted == []


def test_a_gap_with_another_number_of_records_is_named() -> None:
    made = skipping()
    made.keep(4, MemoryImage(), {})
    made.skips(5, 29)
    made.ends(7)
    assert made.miscounted == ["count-0: batches 5 to 7 hold 29 records, and 30 count as lost"]


def test_a_replay_that_begins_within_a_gap_computes_its_rest_and_does_not_count_it() -> None:
    made = skipping(first=6)
    assert made.begins(6)
    made.keep(6, MemoryImage(), {})
    assert made.skips(7, 3)
    made.ends(7)
    assert made.miscounted == []


def test_a_gap_below_the_first_batch_is_of_no_matter() -> None:
    assert SkippedBatches("count-0").know([GAP], 7) == []
