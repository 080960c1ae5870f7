"""The record that moved the watermark furthest is named, in batches of any size; a stream in order has none."""

from __future__ import annotations

from functools import partial
from operator import add

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.leaps import Leap
from holdfast.services.kernel.dataflow.leaps import Leaps


def of(times: list[int], size: int = 1000, least_us: int = 0) -> Leap | None:
    leaping = Leaps("in", least_us)
    for start in range(0, len(times), size):
        part = np.asarray(times[start : start + size], dtype=np.int64)
        leaping.take(2, part, partial(add, 100 + start))
        leaping.take(3, part // 10, partial(add, 0))
    return leaping.leap


@given(st.integers(1, 9))
def test_a_record_from_the_future_is_named_with_how_far_it_is_ahead(size: int) -> None:
    assert of([1, 2, 3, 1000, 4, 5, 6], size) == Leap("in", 2, 103, 1000, 997)
    assert of([1, 2, 3, 1000, 1001, 1002, 4, 5, 6], size) == Leap("in", 2, 103, 1000, 997)


@given(st.integers(1, 9))
def test_a_leap_that_leaves_nothing_behind_made_nothing_late(size: int) -> None:
    """A pause in the stream is a wide leap, too."""
    assert of([1, 2, 5000, 5001, 5100, 5002, 5003], size) == Leap("in", 2, 104, 5100, 99)
    assert of([1, 2, 5000, 5001, 5100, 5002, 5003], size, least_us=100) is None


@given(st.lists(st.integers(0, 10**15)), st.integers(1, 9))
def test_times_that_only_grow_have_none(times: list[int], size: int) -> None:
    assert of(sorted(times), size) is None


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 9))
def test_the_leap_depends_on_the_order_of_the_records_alone(times: list[int], size: int) -> None:
    found, whole = of(times, size, 5), of(times, 1000, 5)
    assert (found is None) == (whole is None)
    assert found is None or whole is None or found.by_us == whole.by_us


FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999


def test_a_leap_from_the_first_year_to_the_last_is_a_record_that_can_be_read() -> None:
    """A marker that cannot be read back ends nothing: its copy waited for it for ever."""
    leap = of([FIRST_US, LAST_US, FIRST_US + 1])
    assert leap == Leap("in", 2, 101, LAST_US, LAST_US - FIRST_US)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(leap), type=Leap) == leap
