"""PROTOCOL 3: which snapshots of the cut log are valid, and with what state a trimmed log begins."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdfast.schemas.cuts import Control, Cut, CutRecord, CutsSnapshot, KnownSnapshot, Range, Snapshot, decode, encode
from holdfast.schemas.decided import Id
from holdfast.services.decisions import cut_snapshots
from holdfast.services.decisions.cut_snapshots import base_of, newest_in
from holdfast.services.decisions.cuts import CutLog
from holdfast.services.decisions.shares import beginning

START = beginning({"flights-0": {0: 100}, "weather-0": {0: 0}})


class Story:
    """A cut log and one that reads it from the start."""

    def __init__(self) -> None:
        self.records: list[tuple[int, CutRecord]] = []
        self.log = CutLog(START)

    def write(self, record: CutRecord) -> bool:
        self.records.append((len(self.records), decode(encode(record))))
        return self.log.read(*self.records[-1])

    def cut(self, task: str = "flights-0") -> None:
        before = self.log.task(task)
        ranges = tuple(Range(r.partition, r.stop, r.stop + 10) for r in before.ranges)
        assert self.write(Cut(task, before.batch + 1, ranges, 0, Id("a", len(self.records)), before.last))


def test_a_snapshot_of_a_little_before_is_valid() -> None:
    story = Story()
    story.cut()
    state = story.log.snapshot()
    story.cut("weather-0")
    story.cut()
    assert story.write(Snapshot(state, time_ms=7))
    assert story.log.snapshots == (KnownSnapshot(1, 7),)
    assert story.log.snapshot().snapshots == (KnownSnapshot(1, 7),)


@pytest.mark.parametrize("wrong", ["batch", "upto", "task", "paused"])
def test_a_snapshot_that_contradicts_the_log_is_not_valid(wrong: str) -> None:
    story = Story()
    story.cut()
    story.cut()
    state = story.log.snapshot()
    later = structs.replace(state.tasks["flights-0"], batch=3)
    wrongs = {
        "batch": structs.replace(state, tasks=state.tasks | {"flights-0": later}),
        "upto": structs.replace(state, upto=1),
        "task": structs.replace(state, tasks={"flights-0": state.tasks["flights-0"]}),
        "paused": structs.replace(state, paused=True),
    }
    assert not story.write(Snapshot(wrongs[wrong]))
    assert story.log.snapshots == ()


def test_a_snapshot_of_cuts_that_are_still_to_come_is_not_valid() -> None:
    story = Story()
    story.cut()
    assert not story.write(Snapshot(structs.replace(story.log.snapshot(), upto=9)))


def test_a_snapshot_from_before_a_control_is_not_known_to_be_valid() -> None:
    story = Story()
    story.cut()
    state = story.log.snapshot()
    story.write(Control("pause", offset=4))
    assert not story.write(Snapshot(state))
    assert story.write(Snapshot(story.log.snapshot()))


def test_a_snapshot_older_than_the_last_is_not_valid() -> None:
    story = Story()
    story.cut()
    old = story.log.snapshot()
    story.cut()
    assert story.write(Snapshot(story.log.snapshot()))
    assert not story.write(Snapshot(old))


def test_the_word_of_a_snapshot_about_others_does_not_count() -> None:
    story = Story()
    story.cut()
    assert story.write(Snapshot(structs.replace(story.log.snapshot(), snapshots=(KnownSnapshot(0, 3),))))
    assert story.log.snapshots == (KnownSnapshot(1, 0),)


def test_cuts_too_long_ago_are_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut_snapshots, "KEPT_CUTS", 2)
    story = Story()
    story.cut()
    long_ago = story.log.snapshot()
    story.cut()
    story.cut()
    within = story.log.snapshot()
    story.cut()
    story.cut()
    assert not story.write(Snapshot(long_ago))
    assert story.write(Snapshot(within))


def test_a_log_remembers_a_bounded_number_of_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut_snapshots, "MOST_KNOWN", 2)
    story = Story()
    for time_ms in range(4):
        story.cut()
        story.write(Snapshot(story.log.snapshot(), time_ms))
    assert [one.time_ms for one in story.log.snapshots] == [2, 3]


def test_a_reader_that_begins_at_a_trimmed_start_agrees_with_one_from_the_first_record() -> None:
    story = Story()
    story.cut()
    story.cut("weather-0")
    state = story.log.snapshot()
    story.cut()
    story.write(Snapshot(state, 5))
    story.cut("weather-0")
    left = [(offset, record) for offset, record in story.records if offset >= state.upto]
    base = base_of(left, state.upto, START)
    assert base is not None
    reader = CutLog(base)
    for offset, record in left:
        reader.read(offset, record)
    assert reader.tasks == story.log.tasks
    assert (reader.upto, newest_in(base)) == (story.log.upto, 1)


def test_a_log_that_is_not_trimmed_begins_with_nothing() -> None:
    assert base_of([], 0, START) == START


def test_a_trimmed_log_without_a_snapshot_has_no_beginning() -> None:
    story = Story()
    story.cut()
    story.cut()
    assert base_of(story.records[1:], 1, START) is None
    below = Snapshot(structs.replace(START, upto=1))
    assert base_of([(3, below)], 2, START) is None
    of_other_tasks = Snapshot(CutsSnapshot(upto=2, tasks={}))
    assert base_of([(3, of_other_tasks)], 2, START) is None
