"""Sums of floats are exact: whatever the batches, the order and the partitions, the value is the sum rounded once."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.operators.aggregate_texts import parse
from holdfast.services.kernel.operators.exact_sums import (
    Exact,
    Memories,
    added,
    floats,
    levels,
    memory,
    of_groups,
    split,
    values,
)
from holdfast.services.kernel.operators.grouping import Grouping, State
from holdfast.services.kernel.state.values import decode_value, encode_value
from tests.support.examples import examples
from tests.support.operators import Harness

FIELDS = {"k": "string", "v": "float?"}
FINITE = st.floats(allow_nan=False, allow_infinity=False)
FLOATS = st.one_of(st.floats(), FINITE, st.sampled_from([0.0, -0.0, 0.1, 1e16, -1e16, 1.0, 5e-324, 1.7e308, -1.7e308]))


def one_sum(given: Sequence[float]) -> Exact | None:
    cut = levels(np.array(given))
    return memory(of_groups(cut, [np.array([column.sum()]) for column in cut.columns]), 0)


def columns(memories: Sequence[Exact | None]) -> Memories:
    """As an operator takes them from its state."""
    pairs = [decode_value(encode_value(split(one))) for one in memories]
    return floats(([high for high, _ in pairs], [rest for _, rest in pairs]))


def sums(old: Sequence[Exact | None], new: Sequence[Exact | None]) -> list[Exact | None]:
    found = added(columns(old), columns(new))
    return [memory(found, at) for at in range(len(old))]


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


@examples(each_run=100, with_long=1_000)
@given(st.lists(FLOATS, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_a_sum_is_that_of_fractions_rounded_once_however_it_is_split(terms: list[float], chance: random.Random) -> None:
    expected = rounded(terms)
    for _ in range(3):
        chance.shuffle(terms)
        memories: list[Exact | None] = []
        left = list(terms)
        while left:
            count = chance.randint(1, len(left))
            memories.append(one_sum(left[:count]))
            left = left[count:]
        while len(memories) > 1:
            a, b = memories.pop(chance.randrange(len(memories))), memories.pop()
            memories += sums([a, None, 1.5], [b, 0.5, None])
            assert (memories.pop(), memories.pop()) == (1.5, 0.5)
        assert same(values(columns(memories))[0], expected)


def test_sums_of_levels_are_exact_in_any_order() -> None:
    chance = np.random.default_rng(7)
    given = chance.standard_normal(10_000) * 10.0 ** chance.integers(-12, 12, 10_000)
    cut = levels(given)
    assert len(cut.columns) <= 5
    for column in cut.columns:
        assert column.sum() == column[::-1].sum() == math.fsum(column)
    assert values(columns([one_sum(given.tolist())]))[0] == math.fsum(given)


def test_a_sum_that_is_one_float_is_remembered_as_one() -> None:
    assert one_sum([1.5, 2.25]) == 3.75
    assert sums([0.5, 1e16, (1e16, 1.0), None], [0.25, 1.0, -1e16, None]) == [0.75, (1e16, 1.0), 1.0, None]


def test_a_sum_beyond_every_float_may_come_back() -> None:
    far = sums([1.7e308], [1.7e308])
    assert values(columns(far))[0] == math.inf
    assert sums(far, [-1.7e308]) == [1.7e308]


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


@pytest.mark.parametrize("together", [1, 2, 7])
def test_sums_of_sessions_are_exact_in_any_batches(together: int) -> None:
    """A rest of two floats, and one beyond every float, in the state of a session."""
    terms = [1.0, 1e-20, 1e-40, 1.7e308, 1.7e308, -1.7e308, -1.7e308]
    window = {"aggregate": {"s": "sum(v)"}, "key": ["k"], "window": {"gap_s": 5}, "emit": "final"}
    task = Harness("aggregate", window, FIELDS)
    for start in range(0, 7, together):
        task.run([{"k": "a", "v": one, "_time": 0} for one in terms[start : start + together]])
        task.restore()
    task.run([{"k": "a", "v": -1.0, "_time": 0}])
    assert [one["s"] for one in task.end()] == [1e-20 + 1e-40]


def test_states_of_an_earlier_release_are_read_beside_new_ones() -> None:
    parsed = {name: "float?" for name in ("v", "w")}
    aggregates = [
        parse(f"a{at}", text, schema(parsed)).aggregates[0] for at, text in enumerate(["mean(v)", "count()", "sum(w)"])
    ]
    grouping = Grouping(["k"], aggregates)
    old: list[State] = [(0.5, 3, 4, (1e16, 1.0)), ((1.0, 1e-20, 1e-40), 3, 4, 2**2200), (None, 0, 1, 0.25)]
    new: list[State] = [(0.5, 3, 4, 1e16, 0.0, 1.0)]
    found = grouping.columns_of([*old, *new])
    assert memory((found[0], found[1]), 1) == (1.0, 1e-20, 1e-40)
    assert [one.to_list() for one in grouping.values(found)] == [
        [0.5 / 3, 1 / 3, None, 0.5 / 3],
        [4, 4, 1, 4],
        [1e16, math.inf, 0.25, 1e16],
    ]
    assert grouping.states_of(grouping.columns_of(grouping.states_of(found)))[0] == new[0]
    merged = grouping.merge([*old, None], grouping.columns_of(new * 4))
    assert [memory((merged[4], merged[5]), at) for at in (0, 2, 3)] == [(2e16, 2.0), (1e16 + 2, -0.75), (1e16, 1.0)]


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
