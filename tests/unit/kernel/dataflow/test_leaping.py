"""The record that moved the watermark furthest is named; a stream in order has none."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.kernel.dataflow.leaping import Leap, widest


def of(*times: int) -> Leap | None:
    return widest("in", 2, np.arange(100, 100 + len(times)), np.asarray(times, dtype=np.int64))


def test_a_record_from_the_future_is_named_with_how_far_it_is_ahead() -> None:
    assert of(1, 2, 3, 1000, 4, 5, 6) == Leap("in", 2, 103, 1000, 997, 3)


def test_a_leap_that_leaves_nothing_behind_made_nothing_late() -> None:
    """A pause in the stream is a wide leap, too."""
    assert of(1, 2, 5000, 5001, 5100, 5002, 5003) == Leap("in", 2, 104, 5100, 99, 2)


@given(st.lists(st.integers(0, 10**15)))
def test_times_that_only_grow_have_none(times: list[int]) -> None:
    assert of(*sorted(times)) is None
