"""emit: each: after every record what one piece up to it gives, and at the end of a batch what updates gives."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from tests.support.operators import Harness, without_time

Rows = list[dict[str, Any]]
FIELDS = {
    "k": "string?",
    "v": "int?",
    "f": "float?",
    "d": "decimal(38,2)?",
    "s": "string?",
    "t": "timestamp?",
    "b": "bool?",
}


def aggregates(column: str) -> dict[str, str]:
    """All that make sense for the column."""
    functions = ["count", "min", "max", "first", "last", *(["sum", "mean"] if column in "vfd" else [])]
    return {function: f"{function}({column})" for function in functions} | {"n": "count()"}


row = st.fixed_dictionaries(
    {
        "k": st.sampled_from([None, "", "a", "ä"]),
        "v": st.none() | st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1),
        "f": st.none() | st.sampled_from([0.0, -0.0, 0.1, 1e17, -1e17]) | st.floats(),
        "d": st.none() | st.decimals(-(10**34), 10**34, places=2, allow_nan=False),
        "s": st.none() | st.text(max_size=3),
        "t": st.none() | st.datetimes(datetime(1960, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
        "b": st.none() | st.booleans(),
        "_time": st.integers(-3, 3),
    }
)
batches = st.lists(st.tuples(st.lists(row, max_size=8), st.booleans()), max_size=5)
columns = st.sampled_from("vfdstb")


def params(emit: str, aggregate: dict[str, str], key: tuple[str, ...] = ("k",)) -> dict[str, Any]:
    return {"aggregate": aggregate, "key": list(key), "window": None, "emit": emit}


def texts(rows: Rows) -> list[dict[str, str]]:
    """To the bit: NaN is itself, and zeros have a sign."""
    return [{name: repr(value) for name, value in row.items()} for row in rows]


@given(batches, columns, st.sampled_from([("k",), ("b", "f"), ("d", "t"), ()]))
def test_the_last_row_of_a_key_is_its_update_to_the_bit(
    some: list[tuple[Rows, bool]], column: str, key: tuple[str, ...]
) -> None:
    spec = aggregates(column)
    each, updates = (Harness("aggregate", params(emit, spec, key), FIELDS) for emit in ("each", "updates"))
    for rows, restore in some:
        if restore:
            each.restore()
        newest = {tuple(one[name] for name in key): one for one in texts(without_time(each.run(rows)))}
        touched = texts(without_time(updates.run(rows)))
        assert newest == {tuple(one[name] for name in key): one for one in touched}


@given(batches, columns)
def test_each_row_has_the_values_of_a_batch_that_ends_with_it(some: list[tuple[Rows, bool]], column: str) -> None:
    exact = {name: text for name, text in aggregates(column).items() if text not in ("sum(f)", "mean(f)")}
    each, single = (Harness("aggregate", params(emit, exact), FIELDS) for emit in ("each", "updates"))
    for rows, restore in some:
        if restore:
            each.restore()
        assert texts(each.run(rows)) == texts([single.run([one])[0] for one in rows])


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(-1e9, 1e9)), min_size=1, max_size=30), st.integers(1, 30))
def test_running_float_sums_are_those_of_their_rows(values: list[tuple[str, float]], cut: int) -> None:
    harness = Harness("aggregate", params("each", {"total": "sum(f)", "average": "mean(f)"}), FIELDS)
    rows = [{"k": key, "f": value, "_time": 0} for key, value in values]
    out = harness.run(rows[:cut]) + harness.run(rows[cut:])
    for place, (key, _) in enumerate(values):
        seen = [value for other, value in values[: place + 1] if other == key]
        assert out[place]["total"] == pytest.approx(math.fsum(seen), rel=1e-9, abs=1e-5)
        assert out[place]["average"] == pytest.approx(math.fsum(seen) / len(seen), rel=1e-9, abs=1e-5)


def test_floats_are_added_as_they_come_also_where_first_and_last_go_by_time() -> None:
    spec = {"total": "sum(f)", "newest": "last(f)"}
    rows = [{"f": value, "_time": -place} for place, value in enumerate([1e17, -1e17, 0.1])]
    for emit in ("each", "updates"):
        assert Harness("aggregate", params(emit, spec), FIELDS).run(rows)[-1]["total"] == 0.1


def test_rows_come_in_the_order_of_the_input_with_their_own_times() -> None:
    harness = Harness("aggregate", params("each", {"n": "count()", "newest": "last(v)"}), FIELDS)
    out = harness.run([{"k": k, "v": v, "_time": t} for k, v, t in [("b", 1, 9), ("a", 2, 5), ("b", 3, 7)]])
    assert [tuple(one.values()) for one in out] == [("b", 1, 1, 9), ("a", 1, 2, 5), ("b", 2, 1, 7)]


def test_sums_beyond_64_bits_are_null_and_come_back() -> None:
    harness = Harness("aggregate", params("each", {"total": "sum(v)"}), FIELDS)
    big = 2**62
    assert [one["total"] for one in harness.run([{"v": v, "_time": 0} for v in (big, big, -big)])] == [big, None, big]
    assert [one["total"] for one in harness.run([{"v": v, "_time": 0} for v in (big, -1)])] == [None, 2**63 - 1]


def test_decimals_are_added_to_the_last_digit() -> None:
    harness = Harness("aggregate", params("each", {"total": "sum(d)", "low": "min(d)"}), FIELDS)
    rows = [{"d": Decimal(text), "_time": 0} for text in ("0.10", "0.20", "-99999999999999999999999999999999.99")]
    assert [one["total"] for one in harness.run(rows)][-1] == Decimal("-99999999999999999999999999999999.69")


def test_each_does_not_say_that_its_rows_are_final() -> None:
    described = catalogue.describe("aggregate", params("each", {"n": "count()"}), [Stream(FIELDS)])
    assert (described.row_key, described.windowed) == (("k",), False)


def test_a_key_may_be_larger_than_a_batch_and_batches_may_hold_many_keys() -> None:
    harness = Harness("aggregate", params("each", {"n": "count()", "total": "sum(v)"}), FIELDS)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [{"k": str(n % 70_000), "v": n, "t": start + timedelta(seconds=n), "_time": n} for n in range(140_000)]
    out = harness.run(rows)
    assert [one["n"] for one in out] == [1] * 70_000 + [2] * 70_000
    assert out[-1]["total"] == 69_999 + 139_999
