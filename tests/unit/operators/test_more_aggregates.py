"""Aggregates beyond sums: the values are DuckDB's, whatever the batches and their order."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

from holdfast.services.kernel.expressions.parsing import ExpressionError
from holdfast.services.kernel.operators import aggregate_texts, collected
from holdfast.services.kernel.operators.grouping import Grouping
from holdfast.services.kernel.operators.operator import TIME

duckdb: Any = pytest.importorskip("duckdb")
SCHEMA = {"k": pl.String(), "v": pl.Int64(), "w": pl.Float64(), "s": pl.String(), "ok": pl.Boolean()}
SAME_IN_DUCKDB = (
    "avg(w)", "median(w)", "stddev(w)", "stddev_pop(w)", "variance(w)", "var_pop(v)", "bool_and(ok)", "bool_or(ok)",
    "count(DISTINCT v)", "count_if(v > 3)", "sum(v) FILTER (WHERE ok)", "count(*) FILTER (WHERE w > 0)",
    "count_if(ok) FILTER (WHERE v > 2)", "sum(v) / count(w)", "ROUND(sum(w) / sum(v) * 100, 3)", "max(v) - min(v)",
    "CASE WHEN count(v) > 10 THEN max(s) ELSE 'few' END", "max(w) FILTER (WHERE s <> 'b,(')",
)  # fmt: skip
OTHERWISE_IN_DUCKDB = {
    "max_by(s, v)": "min(s) FILTER (WHERE v = (SELECT max(v) FROM given g WHERE g.k = given.k AND s IS NOT NULL))",
    "min_by(w, s)": "min(w) FILTER (WHERE s = (SELECT min(s) FROM given g WHERE g.k = given.k AND w IS NOT NULL))",
    "collect_list(v)": "list(v ORDER BY _time, v) FILTER (WHERE v IS NOT NULL)",
    "collect_set(s)": "list(DISTINCT s ORDER BY s) FILTER (WHERE s IS NOT NULL)",
    "string_agg(s, ' | ')": "string_agg(s, ' | ' ORDER BY _time, s)",
}
ALL = {text: f"{text}" for text in SAME_IN_DUCKDB} | OTHERWISE_IN_DUCKDB


def rows_of(seed: int, count: int = 300) -> pl.DataFrame:
    chance = random.Random(seed)

    def some(value: Any) -> Any:
        return None if chance.random() < 0.1 else value

    drawn = [
        (
            chance.choice("abc"),
            some(chance.randint(1, 9)),
            some(chance.uniform(-5, 5) * 10.0 ** chance.randint(0, 6)),
            some(chance.choice(("a", "b,(", "ß", "'"))),
            some(chance.random() < 0.5),
            at // 3,
        )
        for at in range(count)
    ]  # fmt: skip
    return pl.DataFrame(drawn, schema={**SCHEMA, TIME: pl.Int64()}, orient="row")


def computed(text: str, batches: list[pl.DataFrame]) -> dict[str, Any]:
    """By key, and what is remembered for it."""
    parsed = aggregate_texts.parse("x", text, batches[0].schema)
    grouping = Grouping(["k"], parsed.aggregates)
    memory: dict[str, Any] = {}
    for batch in batches:
        keys, columns = grouping.reduce(batch, TIME)
        merged = grouping.merge([memory.get(key) for key in keys["k"]], columns)
        memory |= dict(zip(keys["k"], grouping.states_of(merged), strict=True))
    names = sorted(memory)
    values = pl.DataFrame(grouping.values(grouping.columns_of([memory[name] for name in names])))
    if parsed.expression is not None:
        values = values.with_columns(parsed.expression.alias("x"))
    assert values["x"].dtype == parsed.kind
    return {name: (value, memory[name]) for name, value in zip(names, values["x"], strict=True)}


def plain(value: Any) -> Any:
    return value.to_list() if isinstance(value, pl.Series) else value


@pytest.mark.parametrize("text", ALL)
def test_values_are_those_of_duckdb(text: str) -> None:
    given = rows_of(1)
    connection = duckdb.connect()
    connection.register("given", given.to_arrow())
    wanted = connection.execute(f"SELECT k, {ALL[text]} AS x FROM given GROUP BY k ORDER BY k").fetchall()
    for key, value in wanted:
        found = plain(computed(text, [given])[key][0])
        same = math.isclose(found, value, rel_tol=1e-12) if isinstance(value, float) else found == value
        assert same, (text, key, found, value)


@pytest.mark.parametrize("text", ALL)
def test_order_and_batches_change_neither_value_nor_memory(text: str) -> None:
    given = rows_of(2)
    whole = repr(computed(text, [given]))
    mixed = given.sample(fraction=1.0, shuffle=True, seed=3)
    cuts = [0, 1, 7, 150, given.height]
    assert repr(computed(text, [mixed[a:b] for a, b in pairwise(cuts)])) == whole
    assert repr(computed(text, [given[150:], given[:150]])) == whole


def test_a_spread_of_values_that_are_close_loses_no_digit() -> None:
    given = pl.DataFrame({"k": ["a"] * 3, "w": [1e9 + 0.25, 1e9 + 0.5, 1e9 + 0.75], TIME: [1, 2, 3]})
    assert computed("var_pop(w)", [given])["a"][0] == (0.0625 + 0.0 + 0.0625) / 3


def test_a_collected_list_has_a_bound_whatever_comes_first() -> None:
    given = pl.DataFrame({"k": ["a"] * 3000, "v": range(3000), TIME: range(3000)})
    for text in ("collect_list(v)", "collect_set(v)"):
        for batches in ([given], [given[2000:], given[:2000]]):
            assert plain(computed(text, batches)["a"][0]) == list(range(collected.MOST))


@pytest.mark.parametrize("text", ALL)
def test_a_batch_of_nulls_alone_changes_nothing(text: str) -> None:
    given = rows_of(3, 12)
    nulls = given.with_columns(pl.lit(None, kind).alias(name) for name, kind in SCHEMA.items() if name != "k")
    alone = {key: value for key, (value, _) in computed(text, [given]).items()}
    for batches in ([given, nulls], [nulls, given]):
        found = {key: value for key, (value, _) in computed(text, batches).items()}
        assert repr(found) == repr(alone)


def test_a_column_may_have_the_name_of_a_function_beside_aggregates_that_are_computed_with() -> None:
    schema = {**SCHEMA, "round": pl.Int64(), "year": pl.Int64(), "end": pl.Int64()}
    for text in ("ROUND(sum(w), 2)", "round(sum(round) / 2.0, 1)", "CASE WHEN count() > 1 THEN max(year) end"):
        assert aggregate_texts.parse("x", text, schema).expression is not None
    with pytest.raises(ExpressionError, match="'year' stands outside of an aggregate"):
        aggregate_texts.parse("x", "sum(v) / year", schema)


def test_aggregates_that_are_computed_with_may_have_any_name() -> None:
    rows = rows_of(1)
    parsed = aggregate_texts.parse("share of 'v', %", "100 * sum(v) / count(*)", rows.schema)
    grouped = Grouping(["k"], parsed.aggregates)
    states = grouped.columns_of(grouped.states_of(grouped.reduce(rows, TIME)[1]))
    values = pl.DataFrame(grouped.values(states)).select(parsed.expression)
    assert values.height == 3
    assert values.to_series().null_count() == 0
