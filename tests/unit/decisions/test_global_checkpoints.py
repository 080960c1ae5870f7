"""When a global checkpoint is complete (MECHANISMS R1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.progress import Progress
from holdfast.services.decisions.global_checkpoints import newest


def unit(name: str, *marks: int, acked: int = 0, line: int = 0, ended: bool = False, since: int = 4) -> Progress:
    return Progress(name, max((*marks, acked)), acked, marks=marks, line=line, ended=ended, since=since)


def of(*known: Progress, above: int = 0, lines: dict[str, int] | None = None) -> int | None:
    return newest({one.unit: one for one in known}, lines or {one.unit: 0 for one in known}, 4, above)


def test_the_newest_batch_for_which_every_unit_has_a_marker() -> None:
    assert of(unit("a", 10, 20, 30), unit("b", 10, 20)) == 20
    assert of(unit("a", 10, 20, 30), unit("b", 20), above=20) is None


def test_a_gap_in_the_markers_of_a_unit_leaves_that_batch_out() -> None:
    """A unit that was taken over between the batch and its capture has no marker for the batch."""
    assert of(unit("a", 10, 20, 30), unit("b", 10, 30)) == 30
    assert of(unit("a", 10, 20), unit("b", 10, 30)) == 10


def test_no_global_checkpoint_is_complete_while_a_unit_is_missing() -> None:
    assert of(unit("a", 10), lines={"a": 0, "b": 0}) is None
    assert newest({}, {}, 4, 0) is None


def test_the_end_of_a_unit_stands_for_every_later_batch_and_for_no_earlier_one() -> None:
    assert of(unit("a", 10, 20), unit("b", acked=13, ended=True)) == 20
    assert of(unit("a", 10), unit("b", acked=13, ended=True)) is None
    assert of(unit("a", acked=5, ended=True), unit("b", acked=13, ended=True)) is None


@pytest.mark.parametrize(("line", "found"), [(0, None), (1, 20)])
def test_markers_of_a_unit_from_before_its_rollback_are_void(line: int, found: int | None) -> None:
    assert of(unit("a", 20, line=line), unit("b", 10, 20), lines={"a": 1, "b": 0}) == found


@pytest.mark.parametrize("since", [-1, 3, 5])
def test_markers_under_another_policy_are_void_but_for_a_units_end(since: int) -> None:
    assert of(unit("a", 20), unit("b", 20, since=since)) is None
    assert of(unit("a", 20), unit("b", acked=13, ended=True, since=since)) == 20


marks = st.lists(st.integers(1, 9).map(lambda n: 10 * n), unique=True).map(sorted)


@given(st.lists(marks, min_size=1, max_size=4), st.integers(0, 90))
def test_every_unit_has_a_marker_for_it_and_for_no_later_one_have_all(given_: list[list[int]], above: int) -> None:
    known = [unit(str(number), *some) for number, some in enumerate(given_)]
    shared = [batch for batch in range(10, 100, 10) if batch > above and all(batch in one.marks for one in known)]
    assert of(*known, above=above) == (shared[-1] if shared else None)
