"""Operations on decimals give the exact value, or null where it has more digits than a decimal holds. None raises."""

from __future__ import annotations

from decimal import Context, Decimal
from random import Random

import polars as pl
import pytest

from holdfast.services.kernel.expressions.parsing import compile_expression, computing
from tests.support.operators import Harness

_EXACT = Context(prec=90)
TYPES = [(38, 0), (38, 10), (38, 37), (30, 0), (20, 5), (10, 2)]
_OPERATIONS = {"a + b": _EXACT.add, "a - b": _EXACT.subtract, "a * b": _EXACT.multiply}
EXACT = [*_OPERATIONS, "-a"]
OTHERS = [
    "a / b", "a // b", "a % b", "ROUND(a, 3)", "FLOOR(a)", "CEIL(b)", "CAST(a AS DECIMAL(38, 1))", "GREATEST(a, b)",
    "COALESCE(b, a)", "CASE WHEN a > b THEN a ELSE b END", "NULLIF(a, b)", "a BETWEEN b AND a", "a + 9", "b * 1.5",
]  # fmt: skip


def drawn(some: Random, precision: int, scale: int) -> Decimal:
    most = 10**precision
    units = some.choice(
        (
            0,
            1,
            most - 1,
            most // 10,
            most // 2,
            some.randrange(most),
            some.randrange(10**6),
            10 ** (precision - scale) - 1,
        )
    )
    return Decimal(units * some.choice((1, -1))).scaleb(-scale, _EXACT)


def computed(text: str, rows: pl.DataFrame) -> pl.Series:
    return computing([compile_expression(text, rows.schema).alias("_value")])(rows)["_value"]


@pytest.mark.parametrize("right", TYPES)
@pytest.mark.parametrize("left", TYPES)
def test_values_are_exact_or_null_where_there_are_more_digits_than_fit(
    left: tuple[int, int], right: tuple[int, int]
) -> None:
    some = Random(f"{left} {right}")
    pairs = [(drawn(some, *left), drawn(some, *right)) for _ in range(40)]
    rows = pl.DataFrame(pairs, schema={"a": pl.Decimal(*left), "b": pl.Decimal(*right)}, orient="row")
    too_fine = left[1] + right[1] > 38
    for text in EXACT + OTHERS:
        if too_fine and text == "a * b":
            continue
        found = computed(text, rows)
        if text not in EXACT:
            continue
        assert isinstance(found.dtype, pl.Decimal)
        for (a, b), value in zip(pairs, found.to_list(), strict=True):
            with_all = _EXACT.minus(a) if text == "-a" else _OPERATIONS[text](a, b)
            given = {"a * b": (with_all,), "-a": (a, with_all)}.get(text, (a, b, with_all))
            fits = all(_EXACT.abs(one.scaleb(found.dtype.scale, _EXACT)) < 10**38 for one in given)
            assert value == (with_all if fits else None), (text, a, b)


def test_a_null_of_too_many_digits_is_one_for_the_functions_around_it() -> None:
    rows = pl.DataFrame({"w": [Decimal(10**37), Decimal(2)]}, schema={"w": pl.Decimal(38, 0)})
    assert computed("COALESCE(w * w, 0)", rows).to_list() == [Decimal(0), Decimal(4)]
    assert computed("w * w IS NULL", rows).to_list() == [True, False]


def test_a_sum_over_such_a_row_continues_without_it() -> None:
    """As Kafka holds it: `sum` of the products of two columns, of which one row has too many digits."""
    task = Harness("aggregate", {"aggregate": {"s": "sum(w * w)"}, "key": [], "emit": "final"}, {"w": "decimal(38,0)"})
    task.run([{"w": Decimal(10**37), "_time": 0}, {"w": Decimal(3), "_time": 0}])
    assert [row["s"] for row in task.end()] == [Decimal(9)]
