"""What a windowed aggregate and a join write per checkpoint grows with what was touched, not with what is there
(MECHANISMS C10, C11).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.checkpoints import Entry
from holdfast.services.kernel.state.values import bytes_of
from tests.support.operators import Harness

SECOND = 1_000_000
COUNTS = {"aggregate": {"n": "count()"}, "key": ["k"], "window": {"size_s": 10, "slide_s": 1}, "emit": "final"}
SIDES = {"k": "int", "x": "int"}, {"k": "int", "y": "int"}
MARKS = 2
"""Entries that say which panes there are, at most, when the time moves on by less than a second."""


def counting() -> Harness:
    return Harness("aggregate", COUNTS, {"k": "int"})


def joining(within_s: float = 60.0) -> Harness:
    join = {"left": "l", "right": "r", "on": ["k"], "within_s": within_s, "kind": "inner"}
    return Harness("join", {"join": join}, *SIDES)


def at(second: float, keys: range | list[int]) -> list[dict[str, Any]]:
    return [{"k": key, "_time": round(second * SECOND)} for key in keys]


def left(second: float, keys: range) -> list[dict[str, Any]]:
    return [row | {"x": 1} for row in at(second, keys)]


def right(second: float, keys: range) -> list[dict[str, Any]]:
    return [row | {"y": 1} for row in at(second, keys)]


def written(delta: list[Entry]) -> int:
    return sum(value is not None for _, value in delta)


# -- windows (C10) ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [10, 1_000])
def test_a_checkpoint_of_windows_holds_the_groups_that_were_touched_whatever_is_there(there: int) -> None:
    harness = counting()
    for second in range(9):
        harness.run(at(second, range(there)))
    assert len(harness.checkpoint()) >= 9 * there
    harness.run(at(9, [1, 2, 3]), watermark=0)
    assert len(harness.checkpoint()) <= 3 + MARKS
    harness.run(at(9.1, [1, 2]))
    assert len(harness.checkpoint()) == 2
    assert harness.checkpoint() == []


def test_a_window_is_not_written_for_each_group_that_another_window_touched() -> None:
    """The paper writes the summary of every open window of a touched group; ten of them share our panes."""
    harness = counting()
    for second in range(10):
        harness.run(at(second, range(50)))
    harness.checkpoint()
    harness.run(at(9.5, range(50)))
    assert len(harness.checkpoint()) == 50, "not 10 windows of each"


def test_a_window_that_opened_and_closed_between_two_checkpoints_is_in_none() -> None:
    harness = counting()
    harness.run(at(0, range(100)))
    harness.run(at(30, range(5)), watermark=30 * SECOND)
    delta = harness.checkpoint()
    assert written(delta) <= 5 + MARKS
    assert len(delta) <= 5 + 2 * MARKS, "the first 100 groups are not even deleted: nobody knows them"
    assert harness.end() != []


def test_a_window_that_closed_after_a_checkpoint_is_deleted_in_the_next_one() -> None:
    harness = counting()
    harness.run(at(0, range(100)))
    harness.checkpoint()
    harness.run(at(30, range(5)), watermark=30 * SECOND)
    assert sum(value is None for _, value in harness.checkpoint()) >= 100


touches = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8), st.booleans()), max_size=30)


@given(touches)
def test_a_delta_is_never_larger_than_what_was_touched_and_what_closed(some: list[tuple[int, int, bool]]) -> None:
    """And what is restored from deltas is what was there."""
    harness, now = counting(), 0
    touched: set[tuple[int, int]] = set()
    captured: set[tuple[int, int]] = set()
    for key, step, capture in some:
        now += step
        harness.run(at(now, [key]), watermark=now * SECOND)
        touched.add((key, now))
        if capture:
            open_ones = {(k, second) for k, second in touched if second + 10 > now}
            closed = {(k, second) for k, second in captured if second + 10 <= now}
            marks = len({second for _, second in touched | closed})
            assert len(harness.checkpoint()) <= len(open_ones) + len(closed) + marks
            captured = (captured | open_ones) - closed
            touched = set()


# -- joins (C11) ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [10, 5_000])
def test_a_checkpoint_of_a_join_holds_the_rows_that_entered_whatever_is_there(there: int) -> None:
    harness = joining()
    harness.run(left(0, range(there)), right(0, range(there)))
    first = bytes_of(harness.checkpoint())
    harness.run(left(1, range(10)), right(1, range(10)))
    second = bytes_of(harness.checkpoint())
    harness.run(left(2, range(10)), right(2, range(10)))
    assert bytes_of(harness.checkpoint()) == pytest.approx(second, rel=0.2)
    assert there == 10 or first > 20 * second
    assert harness.checkpoint() == []


def test_a_row_that_entered_and_left_between_two_checkpoints_is_in_none() -> None:
    """The paper's min(t - a, w): a longer interval than the window costs no more."""
    harness = joining(within_s=5)
    harness.run(left(0, range(200)), right(0, range(200)))
    harness.run(left(60, range(3)), [], watermark=60 * SECOND)
    delta = harness.checkpoint()
    assert written(delta) == 1
    assert len(delta) == 1
