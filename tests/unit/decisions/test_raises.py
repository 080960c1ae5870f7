"""PROTOCOL 3: which announcements of leaders, and which records of code that raised, count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.cuts import (
    Cut,
    CutRecord,
    Leading,
    Leads,
    Raised,
    RaisedRows,
    Range,
    Snapshot,
    TaskRaised,
    decode,
    encode,
)
from holdfast.schemas.decided import Id
from holdfast.services.decisions.cuts import CutLog
from holdfast.services.decisions.shares import beginning

UNIT, OTHER = "checked-0", "scored-0"
ROW = TaskRaised((RaisedRows(3, 4, 0),), ("ValueError: no",))
START = beginning({"flights-0": {0: 0}})


class Story:
    """A cut log and one that reads it from the start."""

    def __init__(self) -> None:
        self.records: list[tuple[int, CutRecord]] = []
        self.log = CutLog(START, raising=(UNIT, OTHER))

    def write(self, record: CutRecord) -> bool:
        self.records.append((len(self.records), decode(encode(record))))
        return self.log.read(*self.records[-1])

    def cut(self, count: int = 1) -> None:
        for _ in range(count):
            before = self.log.task("flights-0")
            ranges = tuple(Range(r.partition, r.stop, r.stop + 10) for r in before.ranges)
            assert self.write(Cut("flights-0", before.batch + 1, ranges, 0, Id("a", len(self.records)), before.last))

    def leads(self, epoch: int, author: str, unit: str = UNIT) -> bool:
        return self.write(Leads(unit, epoch, Id(author, epoch)))

    def raised(self, batch: int, lead: Id, tasks: dict[str, TaskRaised] | None = None, unit: str = UNIT) -> bool:
        return self.write(Raised(unit, batch, lead, {"checked-0": ROW} if tasks is None else tasks))


def test_only_the_records_of_the_last_leader_that_announced_itself_count() -> None:
    story = Story()
    story.cut(9)
    assert story.leads(1, "a")
    assert story.raised(2, Id("a", 1))
    assert story.leads(2, "b")
    assert not story.raised(3, Id("a", 1)), "a former leader wakes with a record in hand"
    assert story.raised(4, Id("b", 2))
    assert story.log.leading(UNIT) == Leading(2, Id("b", 2), 4)


def test_a_leader_that_begins_again_announces_itself_again_and_what_it_had_in_hand_is_void() -> None:
    story = Story()
    story.cut(9)
    assert story.write(Leads(UNIT, 4, Id("a", 1)))
    assert story.write(Leads(UNIT, 4, Id("a", 7)))
    assert not story.raised(3, Id("a", 1))
    assert story.raised(3, Id("a", 7))


def test_an_announcement_of_a_lower_epoch_is_void() -> None:
    story = Story()
    story.cut(9)
    assert story.leads(5, "b")
    assert not story.leads(4, "a")
    assert story.raised(1, Id("b", 5))


def test_the_first_of_two_records_about_a_batch_counts_and_none_goes_back() -> None:
    story = Story()
    story.cut(9)
    story.leads(1, "a")
    assert story.raised(5, Id("a", 1))
    assert not story.raised(5, Id("a", 1), {"checked-0": TaskRaised((RaisedRows(0, 2),))})
    assert not story.raised(4, Id("a", 1)), "batch 4 is decided: nothing raised there"
    story.leads(2, "b")
    assert not story.raised(5, Id("b", 2))
    assert story.raised(6, Id("b", 2))


def test_nothing_can_be_said_of_a_batch_that_nobody_has_cut() -> None:
    story = Story()
    story.cut(3)
    story.leads(1, "a")
    assert not story.raised(4, Id("a", 1))
    assert story.raised(3, Id("a", 1))


def test_nothing_counts_of_a_unit_whose_code_cannot_raise() -> None:
    story = Story()
    story.cut(3)
    assert not story.leads(1, "a", unit="flights-0")
    assert not story.raised(2, Id("a", 1), unit="flights-0")
    assert not story.raised(2, Id("a", 1)), "nobody leads it yet"


@pytest.mark.parametrize(
    "rows",
    [
        (),
        (RaisedRows(3, 3, 0),),
        (RaisedRows(4, 3, 0),),
        (RaisedRows(3, 4),),
        (RaisedRows(3, 5, 1),),
        (RaisedRows(3, 5, -2),),
        (RaisedRows(3, 5, 0), RaisedRows(4, 6, 0)),
        (RaisedRows(7, 8, 0), RaisedRows(1, 2, 0)),
    ],
)
def test_ranges_that_no_batch_can_have_are_void(rows: tuple[RaisedRows, ...]) -> None:
    story = Story()
    story.cut(3)
    story.leads(1, "a")
    assert not story.raised(2, Id("a", 1), {"checked-0": ROW, "scored-0": TaskRaised(rows, ("no",))})
    assert not story.raised(2, Id("a", 1), {})
    assert story.raised(2, Id("a", 1))


def test_a_snapshot_that_leaves_a_leader_out_or_has_another_is_void() -> None:
    story = Story()
    story.cut(2)
    before = story.log.snapshot()
    story.leads(1, "a")
    story.raised(1, Id("a", 1))
    after = story.log.snapshot()
    story.leads(2, "b")
    assert story.write(Snapshot(before)), "as it was then"
    assert story.write(Snapshot(after))
    assert after.leads == {UNIT: Leading(1, Id("a", 1), 1)}
    assert not story.write(Snapshot(Story().log.snapshot()))


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["cut", "leads", "raised", "snapshot"]),
            st.sampled_from([UNIT, OTHER, "flights-0"]),
            st.integers(0, 3),
            st.integers(0, 6),
        ),
        max_size=50,
    ),
    data=st.data(),
)
def test_readers_that_begin_with_a_valid_snapshot_or_any_state_agree_with_all_others(
    steps: list[tuple[str, str, int, int]], data: st.DataObject
) -> None:
    story, states = Story(), []
    for kind, unit, epoch, batch in steps:
        states.append(story.log.snapshot())
        if kind == "cut":
            story.cut()
        elif kind == "leads":
            story.leads(epoch, "a", unit)
        elif kind == "raised":
            story.raised(batch, Id("a", epoch), unit=unit)
        else:
            chosen = data.draw(st.sampled_from(states))
            valid = story.write(Snapshot(chosen))
            assert not valid or chosen.leads == states[chosen.upto].leads
    states.append(story.log.snapshot())
    start = data.draw(st.sampled_from(states))
    reader = CutLog(start, raising=(UNIT, OTHER))
    for offset, record in story.records:
        reader.read(offset, record)
    assert reader.snapshot().leads == story.log.snapshot().leads
    assert reader.snapshot().tasks == story.log.snapshot().tasks


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 9)), max_size=40))
def test_valid_records_are_of_rising_batches_under_leaders_of_rising_epochs(steps: list[tuple[int, int, int]]) -> None:
    story = Story()
    story.cut(9)
    decided: list[tuple[int, int]] = []
    for epoch, lead, batch in steps:
        story.leads(epoch, "a")
        if story.raised(batch, Id("a", lead)):
            decided.append((lead, batch))
    assert decided == sorted(decided)
    assert len({batch for _, batch in decided}) == len(decided)
