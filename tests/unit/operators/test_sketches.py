"""count_distinct and quantile: exact up to 10,000 distinct values, near beyond, and never dependent on the order."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.operators import distinct, quantiles
from tests.support.operators import Harness

FIELDS = {
    "i": "int?",
    "f": "float?",
    "d": "decimal(20,2)?",
    "s": "string?",
    "x": "bytes?",
    "t": "timestamp?",
    "b": "bool?",
}
SHARES = (0.0, 0.01, 0.9, 1.0)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "f": st.sampled_from([0.0, -0.0, 5e-324]) | st.floats(),
    "d": st.decimals(-(10**17), 10**17, places=2),
    "s": st.text(max_size=2),
    "x": st.binary(max_size=2),
    "t": st.datetimes(timezones=st.just(UTC)),
    "b": st.booleans(),
}


def totals(aggregate: dict[str, str], window: dict[str, int] | None = None, emit: str = "updates") -> Harness:
    return Harness("aggregate", {"aggregate": aggregate, "key": [], "window": window, "emit": emit}, FIELDS)


def counted(values: Sequence[Any]) -> int:
    """Zeros are one value, and so are all NaN; null is none."""
    return len({"nan" if value != value else value for value in values if value is not None})


@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_few_values_of_any_type_are_counted_exactly(data: st.DataObject, kind: str) -> None:
    harness, seen = totals({"n": f"count_distinct({kind})"}), list[Any]()
    for values in data.draw(st.lists(st.lists(st.none() | VALUES[kind], min_size=1, max_size=5), max_size=4)):
        (out,) = harness.run([{kind: value, "_time": 0} for value in values])
        seen += values
        assert out["n"] == counted(seen)
        harness.restore()


some_floats = st.lists(st.none() | st.just(math.nan) | st.floats(-1e300, 1e300), min_size=1, max_size=6)


@given(st.lists(some_floats, min_size=1, max_size=4))
def test_quantiles_of_few_values_are_those_of_one_piece(some: list[list[float | None]]) -> None:
    harness = totals({str(share): f"quantile(f, {share})" for share in SHARES})
    seen: list[float | None] = []
    for values in some:
        (out,) = harness.run([{"f": value, "_time": 0} for value in values])
        seen += values
        harness.restore()
        known = pl.Series(seen, dtype=pl.Float64).fill_nan(None).drop_nulls()
        for share in SHARES:
            expected = known.quantile(share, "linear")
            assert out[str(share)] == (None if expected is None else pytest.approx(expected, rel=1e-9))


def many(seed: int, count: int) -> list[int]:
    """Distinct, a quarter of them below 0."""
    values = list(range(-(count // 4), count - count // 4))
    random.Random(seed).shuffle(values)
    return values


def in_batches(harness: Harness, values: Sequence[int], seed: int, column: str = "i") -> dict[str, Any]:
    cut, start, out = random.Random(seed), 0, dict[str, Any]()
    while start < len(values):
        size = cut.choice([1, 700, 9_000, 40_000])
        (out,) = harness.run([{column: value, "_time": 0} for value in values[start : start + size]])
        start += size
        if cut.random() < 0.3:
            harness.restore()
    return out


@pytest.mark.parametrize("count", [9_999, 10_000, 10_001, 60_000])
def test_many_values_are_counted_exactly_to_the_limit_and_near_beyond_in_any_order(count: int) -> None:
    aggregate = {"n": "count_distinct(i)"}
    (found,) = {in_batches(totals(aggregate), [*many(seed, count), 1, 2], seed)["n"] for seed in (1, 2)}
    assert found == (count if count <= distinct.EXACT_UP_TO else pytest.approx(count, rel=0.04))


def test_estimates_of_counts_have_a_standard_error_of_one_per_cent() -> None:
    errors = []
    for seed in range(30):
        values = pl.Series("v", np.arange(30_000) * (seed + 1) - 7**seed % 10**9)
        (memory,) = distinct.memories(pl.Series([distinct.prepared(values)]))
        errors.append(distinct.count(memory) / 30_000 - 1)
    assert float(np.std(errors)) < 0.015
    assert abs(float(np.mean(errors))) < 0.005


@pytest.mark.parametrize("column", ["i", "f"])
def test_quantiles_of_many_values_are_near_in_any_order(column: str) -> None:
    aggregate = {str(share): f"quantile({column} * 3, {share})" for share in SHARES}
    one, other = (in_batches(totals(aggregate), many(seed, 50_000), seed, column) for seed in (1, 2))
    assert one == other
    exact = pl.Series(many(1, 50_000)).cast(pl.Float64) * 3
    for share in SHARES:
        assert one[str(share)] == pytest.approx(exact.quantile(share, "linear"), rel=0.01)


def test_quantiles_are_exact_up_to_the_limit() -> None:
    values = many(1, quantiles.EXACT_UP_TO)
    out = in_batches(totals({"q": "quantile(i, 0.123)"}), values * 2, 1)
    assert out["q"] == pytest.approx(pl.Series(values * 2).quantile(0.123, "linear"), rel=1e-12)


def test_sliding_windows_merge_what_their_panes_remember() -> None:
    window = {"size_s": 4, "slide_s": 2}
    harness = totals({"n": "count_distinct(i)", "q": "quantile(i, 0.5)"}, window, "final")
    for batch in range(6):
        few, all_of_them = range(batch, 9, 6), range(batch, 12_009, 6)
        seconds = [few, few, few, few, all_of_them, all_of_them]
        harness.run([{"i": i, "_time": second * 1_000_000} for second, some in enumerate(seconds) for i in some])
        harness.restore()
    got = {(out["_time"] + 1) // 1_000_000: (out["n"], out["q"]) for out in harness.end()}
    assert list(got) == [2, 4, 6, 8]
    assert got[2] == got[4] == (9, 4.0)
    assert got[6][0] == pytest.approx(12_009, rel=0.04)
    assert got[8] == (got[6][0], pytest.approx(6_004, rel=0.01))


def test_memories_stay_small_whatever_comes() -> None:
    random_bits = np.random.default_rng(5).integers(0, 2**63, 400_000)
    floats = pl.Series("v", random_bits.view(np.float64))
    wide = pl.concat([floats, -floats])
    memory = quantiles.memories(pl.Series([quantiles.prepared(wide)]))[0]
    assert len(memory[1]) + len(memory[2]) <= 160_000
    assert quantiles.quantile(memory, 0.5) == pytest.approx(0.0, abs=1e-300)
    assert len(distinct.memories(pl.Series([distinct.prepared(wide)]))[0]) <= 80_008


def test_hashes_are_those_of_every_release() -> None:
    """What is stored by one release is read by the next, and by another machine."""
    some = {
        "i": pl.Series([0, None, -1]),
        "f": pl.Series([0.0, 1.5]),
        "s": pl.Series(["", None, "ä"]),
        "d": pl.Series([Decimal("1.50"), Decimal("0.10")]),
        "t": pl.Series([datetime(2024, 1, 1, tzinfo=UTC)]),
    }
    assert {name: distinct.prepared(column).to_list() for name, column in some.items()} == {
        "i": [16294208416658607535, None, 16490336266968443936],
        "f": [16294208416658607535, 15481881892811333770],
        "s": [3244421341483603138, None, 6066459093398238388],
        "d": [1018671289188329407, 10198610661661963977],
        "t": [6734294775555896561],
    }
