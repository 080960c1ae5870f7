"""Every aggregate over every type that it takes: the values are DuckDB's at the edges of each type, also filtered."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from holdfast.services.kernel.expressions.parsing import ExpressionError
from holdfast.services.kernel.functions.aggregates import AGGREGATES
from holdfast.services.kernel.functions.catalogue import AGGREGATE_BY_NAME
from holdfast.services.kernel.operators.operator import TIME
from tests.support.sql_table import EDGES, LEAST, MOST, PHYSICAL, SCHEMA
from tests.unit.operators import test_more_aggregates
from tests.unit.operators.test_more_aggregates import computed

duckdb: Any = pytest.importorskip("duckdb")
KNOWN = "FILTER (WHERE {v} IS NOT NULL)"
DUCKDB: dict[str, tuple[str, str]] = {
    "count": ("count({v})", "count({v})"),
    "count_if": ("count_if({v})", "count(*) FILTER (WHERE {v})"),
    "sum": ("sum({v})", "sum({v})"),
    "mean": ("mean({v})", "avg({v})"),
    "min": ("min({v})", "min({v})"),
    "max": ("max({v})", "max({v})"),
    "first": ("first({v})", f"first({{v}} ORDER BY i) {KNOWN}"),
    "last": ("last({v})", f"last({{v}} ORDER BY i) {KNOWN}"),
    "max_by": ("max_by({v}, i)", "arg_max({v}, i)"),
    "min_by": ("min_by(i, {v})", "min(i) FILTER (WHERE {v} = (SELECT min({v}) FROM given))"),
    "var_samp": ("var_samp({v})", "var_samp({v})"),
    "var_pop": ("var_pop({v})", "var_pop({v})"),
    "stddev_samp": ("stddev_samp({v})", "stddev_samp({v})"),
    "stddev_pop": ("stddev_pop({v})", "stddev_pop({v})"),
    "count_distinct": ("count(DISTINCT {v})", "count(DISTINCT {v})"),
    "quantile": ("quantile({v}, 0.25)", "quantile_cont({v}::double, 0.25)"),
    "median": ("median({v})", "median({v}::double)"),
    "collect_list": ("collect_list({v})", f"list({{v}} ORDER BY i) {KNOWN}"),
    "collect_set": ("collect_set({v})", f"list(DISTINCT {{v}} ORDER BY {{v}}) {KNOWN}"),
    "string_agg": ("string_agg({v}, '/')", "string_agg({v}, '/' ORDER BY i)"),
}
"""Ours and DuckDB's by name. {v}: the column; i: a number by which rows are in order; k: the key."""
ORDERED, NUMBERS = ("a", "x", "m", "s", "t", "d", "ok"), ("a", "x", "m")
TAKES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("count", "count_distinct", "first", "last", "max_by", "min", "max", "min_by"), ORDERED),
    **dict.fromkeys(("sum", "mean", "median", "quantile"), NUMBERS),
    **dict.fromkeys(("var_samp", "var_pop", "stddev_samp", "stddev_pop"), NUMBERS),
    **dict.fromkeys(("collect_list", "collect_set"), ("a", "x", "s", "t", "d", "ok")),
    "count_if": ("ok",),
    "string_agg": ("s",),
}
"""Columns that each aggregate takes; the others are refused."""


def rows_of(column: str) -> pl.DataFrame:
    """Edge values in groups: all of them, those that are small, one alone, and nothing but null."""
    chance = random.Random(column)
    edges = [value for value in EDGES[column] if not (isinstance(value, float) and not math.isfinite(value))]
    small = [value for value in edges if value is None or not isinstance(value, int | float) or abs(value) < 2**31]
    groups = {"all": edges, "small": small, "one": [edges[1]], "null": [None, None]}
    drawn = [(key, value) for key, values in groups.items() for value in chance.choices(values, k=2 * len(values))]
    given = pl.Series("v", [value for _, value in drawn], dtype=PHYSICAL.get(column, SCHEMA[column]))
    return pl.DataFrame({
        "k": [key for key, _ in drawn],
        column: given.cast(SCHEMA[column]),
        "f": [chance.choice((True, False, None)) for _ in drawn],
        "i": range(len(drawn)),
        TIME: range(len(drawn)),
    })  # fmt: skip


def theirs(duck: Any, text: str, given: pl.DataFrame, filtered: bool) -> dict[str, Any]:
    """By key; None where DuckDB raises, as at a sum of too large numbers."""
    plain = given.with_columns(pl.col(pl.Datetime).dt.replace_time_zone(None)) if "t" in given else given
    found = {}
    for (key,), some in plain.group_by("k", maintain_order=True):
        duck.register("given", (some.filter("f") if filtered else some).to_arrow())
        try:
            found[str(key)] = duck.execute(f"SELECT {text} FROM given").fetchall()[0][0]
        except duckdb.OutOfRangeException:
            found[str(key)] = None
    return found


def same(ours: Any, wanted: Any) -> bool:
    if isinstance(ours, pl.Series | list) and isinstance(wanted, list):
        return len(ours) == len(wanted) and all(map(same, list(ours), wanted))
    if isinstance(ours, float) and wanted is not None:
        return math.isclose(ours, float(wanted), rel_tol=1e-9, abs_tol=1e-12)
    if ours is None and isinstance(wanted, float):
        return not math.isfinite(wanted)
    if isinstance(wanted, int | Decimal) and ours is None:  # beyond 64 bits, or 38 digits
        return not LEAST <= wanted <= MOST
    if hasattr(ours, "tzinfo"):
        ours = ours.replace(tzinfo=None)
    return bool(ours == wanted)


def test_every_aggregate_is_held_against_duckdb() -> None:
    assert set(DUCKDB) == set(TAKES) == {one.name for one in AGGREGATES}


@pytest.mark.parametrize("name", DUCKDB)
def test_values_are_those_of_duckdb_and_other_types_are_refused(name: str) -> None:
    duck, wrong = duckdb.connect(), []
    duck.execute("SET TimeZone = 'UTC'")
    for column in ORDERED:
        given = rows_of(column)
        text, sql = (one.format(v=column) for one in DUCKDB[name])
        if column not in TAKES[name]:
            with pytest.raises(ExpressionError):
                computed(text, [given])
            continue
        for filtered in (False, True):
            ours = computed(text + " FILTER (WHERE f)" * filtered, [given[::2], given[1::2]])
            wanted = theirs(duck, sql, given, filtered)
            wrong += [(text, filtered, k, v, wanted[k]) for k, (v, _) in ours.items() if not same(v, wanted[k])]
    assert not wrong, f"{len(wrong)}: {wrong[:3]} (aggregate, filtered, key, ours, DuckDB's)"


def test_other_names_mean_the_same() -> None:
    texts = {"count_if": "count_if(ok)", "quantile": "quantile(v, 0.5)", "string_agg": "string_agg(s)"}
    texts |= {"max_by": "max_by(s, v)", "min_by": "min_by(s, v)"}
    given = test_more_aggregates.rows_of(4, 30)
    for alias, function in AGGREGATE_BY_NAME.items():
        argument = "(ok)" if alias in ("bool_and", "every", "logical_and", "bool_or", "some", "logical_or") else "(v)"
        text = texts.get(function.name, function.name + argument)
        called = alias + text[text.index("(") :]
        assert repr(computed(called, [given])) == repr(computed(text, [given])), called
