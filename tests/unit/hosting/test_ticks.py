"""Processes whose waits began at different times send at the same ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.hosting.ticks import LEAST_SHARE, until_tick

INTERVALS_S = st.sampled_from([0.02, 0.05, 0.1, 1.0, 10.0])
TIMES_S = st.integers(0, 10**13).map(lambda milliseconds: milliseconds / 1000)


@given(INTERVALS_S, TIMES_S)
def test_a_wait_ends_at_a_multiple_of_the_interval(interval_s: float, now_s: float) -> None:
    ticks = (now_s + until_tick(interval_s, now_s)) / interval_s
    assert ticks == pytest.approx(round(ticks), abs=1e-3)


@given(INTERVALS_S, TIMES_S)
def test_no_tick_is_used_twice_and_a_gap_is_one_interval_at_most(interval_s: float, now_s: float) -> None:
    wait_s = until_tick(interval_s, now_s)
    assert LEAST_SHARE * interval_s <= wait_s * (1 + 1e-6)
    assert wait_s <= (1 + LEAST_SHARE) * interval_s


def test_a_wait_that_ended_early_does_not_send_twice() -> None:
    assert until_tick(0.1, 1.0999) == pytest.approx(0.1001)
    assert until_tick(0.1, 1.1003) == pytest.approx(0.0997)
