"""Sums of floats are exact: whatever the batches, the order and the partitions, the value is the sum rounded once."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.kernel.operators.exact_sums import Exact, added, levels, of_groups, value
from services.kernel.state.keyed import decode_value, encode_value
from tests.support.operators import Harness

FIELDS = {"k": "string", "v": "float?"}
FINITE = st.floats(allow_nan=False, allow_infinity=False)
FLOATS = st.one_of(st.floats(), FINITE, st.sampled_from([0.0, -0.0, 0.1, 1e16, -1e16, 1.0, 5e-324, 1.7e308, -1.7e308]))


def one_sum(values: Sequence[float]) -> Exact:
    cut = levels(np.array(values))
    return of_groups(cut, [np.array([column.sum()]) for column in cut.columns])[0]


def rounded(values: Sequence[float]) -> float:
    """By fractions."""
    special = [one for one in values if not math.isfinite(one)]
    if special:
        return sum(special)
    total = sum((Fraction(one) for one in values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def same(a: float | None, b: float) -> bool:
    return a == b or (a is not None and math.isnan(a) and math.isnan(b))


@settings(max_examples=300)
@given(st.lists(FLOATS, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_a_sum_is_that_of_fractions_rounded_once_however_it_is_split(
    values: list[float], chance: random.Random
) -> None:
    expected = rounded(values)
    for _ in range(3):
        chance.shuffle(values)
        memories: list[Exact | None] = []
        left = list(values)
        while left:
            count = chance.randint(1, len(left))
            memories.append(one_sum(left[:count]))
            left = left[count:]
        while len(memories) > 1:
            a, b = memories.pop(chance.randrange(len(memories))), memories.pop()
            memories += added([a], [b])
            (memories[-1],) = decode_value(encode_value((memories[-1],)))
        assert same(value(memories[0]), expected)


def test_sums_of_levels_are_exact_in_any_order() -> None:
    chance = np.random.default_rng(7)
    values = chance.standard_normal(10_000) * 10.0 ** chance.integers(-12, 12, 10_000)
    cut = levels(values)
    assert len(cut.columns) <= 5
    for column in cut.columns:
        assert column.sum() == column[::-1].sum() == math.fsum(column)
    assert value(one_sum(values.tolist())) == math.fsum(values)


def test_a_sum_that_is_one_float_is_remembered_as_one() -> None:
    assert one_sum([1.5, 2.25]) == 3.75
    assert added([0.5], [0.25]) == [0.75]
    assert added([1e16], [1.0]) == [(1e16, 1.0)]
    assert added([(1e16, 1.0)], [-1e16]) == [1.0]


def test_a_sum_beyond_every_float_may_come_back() -> None:
    far = added([1.7e308], [1.7e308])
    assert value(far[0]) == math.inf
    assert added(far, [-1.7e308]) == [1.7e308]


@pytest.mark.parametrize("emit", ["updates", "each"])
@pytest.mark.parametrize("together", [1, 2, 3, 6])
def test_the_sum_of_the_report_is_4_in_any_batches(emit: str, together: int) -> None:
    values = [1e16, 1.0, 1.0, -1e16, 1.0, 1.0]
    params = {"aggregate": {"s": "sum(v)", "m": "mean(v)", "n": "count()"}, "key": ["k"], "window": None, "emit": emit}
    task, found = Harness("aggregate", params, FIELDS), list[dict[str, Any]]()
    for start in range(0, 6, together):
        found += task.run([{"k": "a", "v": one, "_time": 0} for one in values[start : start + together]])
        task.restore()
    assert (found[-1]["s"], found[-1]["m"], found[-1]["n"]) == (4.0, 4.0 / 6, 6)
    if emit == "each":
        assert [one["s"] for one in found] == [1e16, 1e16, 1e16 + 2, 2.0, 3.0, 4.0]


def test_a_total_of_an_earlier_release_is_one_float() -> None:
    assert added([0.1], [(1.0, 1e-20)]) == added([(1.0, 1e-20)], [0.1])


def test_nulls_alone_have_no_sum_and_specials_are_absorbed() -> None:
    params = {"aggregate": {"s": "sum(v)", "n": "count(v)"}, "key": ["k"], "window": None, "emit": "updates"}
    rows: list[dict[str, Any]] = [
        {"k": "a", "v": None, "_time": 0},
        {"k": "b", "v": math.inf, "_time": 0},
        {"k": "b", "v": 1.0, "_time": 0},
        {"k": "c", "v": 1e308, "_time": 0},
        {"k": "c", "v": 1e308, "_time": 0},
        {"k": "c", "v": -1e308, "_time": 0},
        {"k": "d", "v": 2.0, "_time": 0},
        {"k": "d", "v": None, "_time": 0},
    ]
    found = Harness("aggregate", params, FIELDS).run(rows)
    assert [(one["s"], one["n"]) for one in found] == [(None, 0), (math.inf, 2), (1e308, 3), (2.0, 1)]
