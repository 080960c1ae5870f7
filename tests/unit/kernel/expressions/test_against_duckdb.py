"""Every function, operator, predicate and cast, against DuckDB and in batches of any size (tests/support/sql_table.py).

Both sides count as the same: null, and what the stream has no value for, such as NaN, infinity, an integer of more than
64 bits, a time outside the years 1 to 9999, or an error of DuckDB.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from holdfast.services.kernel.codecs.fields import text_of
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.codecs.maps import KEY, VALUE
from holdfast.services.kernel.codecs.plain_values import within_calendar
from holdfast.services.kernel.expressions.parsing import ExpressionError, compile_expression, computing, result_type
from tests.support.examples import few_examples
from tests.support.sql_table import DIFFERENCES, LEAST, MOST, SCHEMA, TABLE, Entry, columns_of, rows

duckdb: Any = pytest.importorskip("duckdb")
DOCS = Path(__file__).parents[4] / "docs" / "jobs.md"
EDGE_ROWS, DRAWN_ROWS = 300, 100
BATCHES = (33,) if few_examples() else (31, 32, 33, 1025)
"""Rows: around the bits of a word, and beyond 1,024. A batch of 10,000 took half of the time of this file."""
OF_ONE_ROW = {"last_value"}
"""Functions of many rows, which polars takes for the value of the row where no window is written."""


_AS_MAP = f"""map_from_entries(list_transform(q, lambda e: row(e."{KEY}", e."{VALUE}")))"""


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    yield connection
    connection.close()


def parts(entry: Entry) -> tuple[str, str, str]:
    if isinstance(entry, str):
        return entry, entry, ""
    return entry if len(entry) == 3 else (*entry, "")


NULLS = {name: pl.lit(None, kind).alias(name) for name, kind in SCHEMA.items()}


def ours(text: str, some: pl.DataFrame) -> pl.Series:
    made = compile_expression(text, SCHEMA)
    missing = [name for name in made.meta.root_names() or SCHEMA if name not in some.columns]
    return computing([made.alias("_value")])(some.with_columns(NULLS[name] for name in missing))["_value"]


def theirs(duck: Any, text: str, some: pl.DataFrame) -> list[Any]:
    """DuckDB's values; None where it raises at a row."""
    duck.register("given", some.with_columns(pl.col(pl.Datetime).dt.replace_time_zone(None)).to_arrow())
    table = f"(SELECT * REPLACE ({_AS_MAP} AS q) FROM given)" if "q" in some.columns else "given"
    try:
        found: Any = pl.from_arrow(duck.execute(f"SELECT ({text}) AS v FROM {table}").to_arrow_table())
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException):
        raise
    except duckdb.Error:
        found = pl.from_arrow(duck.execute(f"SELECT TRY({text}) AS v FROM {table}").to_arrow_table())
    return plain(found["v"])


def plain(column: pl.Series) -> list[Any]:
    if isinstance(column.dtype, pl.Datetime):
        column = column.dt.cast_time_unit("us").dt.replace_time_zone("UTC")
    inside = within_calendar(column.to_frame("v"), {"v": column.dtype})["v"]
    return [_plain(value) for value in inside.to_list()]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Decimal) and value == value.to_integral_value() and not LEAST <= value <= MOST:
        return None
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return None if type(value) is int and not LEAST <= value <= MOST else value


def same(one: Any, other: Any) -> bool:
    if one is None or other is None or isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-15)
    if isinstance(one, date) and isinstance(other, date) and type(one) is not type(other):
        return False
    return bool(one == other)


def assert_agree(duck: Any, entry: Entry, seed: int, most: int) -> None:
    text, sql, reason = parts(entry)
    some = rows(columns_of(f"{text} {sql}"), seed, most)
    kept = [index for index, row in enumerate(some.iter_rows(named=True)) if _asked(row, reason)]
    if not kept:
        return
    some = some[kept]
    got, wanted = plain(ours(text, some)), theirs(duck, sql, some)
    wrong = [(row, g, w) for row, g, w in zip(some.rows(), got, wanted, strict=True) if not same(g, w)]
    assert not wrong, f"{text}: {len(wrong)} of {some.height} differ, such as {wrong[:3]} (row, ours, DuckDB's)"


def _asked(row: dict[str, Any], reason: str) -> bool:
    """NaN is no number here, and the largest one there."""
    nan = any(isinstance(value, float) and math.isnan(value) for value in row.values())
    return not nan and not (reason and DIFFERENCES[reason].where(row))


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: parts(entry)[0])
def test_values_are_those_of_duckdb_or_the_difference_is_documented(duck: Any, entry: Entry) -> None:
    assert_agree(duck, entry, 0, EDGE_ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_values_that_a_seed_draws_are_those_of_duckdb(duck: Any, seed: int) -> None:
    for entry in TABLE:
        assert_agree(duck, entry, seed, DRAWN_ROWS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 30))
def test_values_that_more_seeds_draw_are_those_of_duckdb(duck: Any, seed: int) -> None:
    test_values_that_a_seed_draws_are_those_of_duckdb(duck, seed)


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: parts(entry)[0])
def test_a_value_depends_on_its_row_alone_in_batches_of_any_size_and_none_raises(entry: Entry) -> None:
    text = parts(entry)[0]
    some = rows(columns_of(text), 0, 12)
    fields = {"v": text_of(result_type(compile_expression(text, SCHEMA), SCHEMA))}
    alone = [encode_json(ours(text, some[row]).to_frame("v"), fields)[0] for row in range(some.height)]
    for count in BATCHES:
        batch = pl.concat([some] * (count // some.height + 1)).head(count)
        assert encode_json(ours(text, batch).to_frame("v"), fields) == (alone * count)[:count]


@pytest.mark.parametrize(
    "text", ["l[a]", "LIST_EXTRACT(l, a)", "SPLIT_PART('a,b', ',', a)", "LPAD('a', a)", "RPAD('a', a)"]
)
def test_no_number_of_a_record_ends_a_batch_of_one_row(text: str) -> None:
    some = rows(["a"], 0, 100).with_columns(pl.lit(pl.Series("l", [[1, 2]], SCHEMA["l"])).first().alias("l"))
    alone = [ours(text, some[row])[0] for row in range(some.height)]
    assert alone == ours(text, some).to_list()


@pytest.mark.parametrize("text", ["COALESCE(a, s)", "IFNULL(t, s)", "IF(ok, a, s)", "CASE WHEN ok THEN t ELSE a END"])
def test_a_choice_among_values_of_several_types_is_refused_by_both(duck: Any, text: str) -> None:
    with pytest.raises(ExpressionError, match="chooses between"):
        compile_expression(text, SCHEMA)
    with pytest.raises(duckdb.BinderException, match="explicit cast"):
        theirs(duck, text, rows(["a", "s", "t", "ok"], 0, 1))


def test_every_difference_has_a_reason_in_the_docs() -> None:
    docs = " ".join(DOCS.read_text().split())
    assert [name for name, one in DIFFERENCES.items() if one.said not in docs] == []
    assert {parts(entry)[2] for entry in TABLE} - {""} == set(DIFFERENCES)


def test_every_function_that_check_takes_is_in_the_table(duck: Any) -> None:
    """Names of functions are those of DuckDB, and those of the table."""
    tried = {word.lower() for entry in TABLE for word in re.findall(r"(\w+)\s*\(", parts(entry)[0])}
    names = {name for (name,) in duck.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()}
    others = names - tried - OF_ONE_ROW
    assert {name for name in others if re.fullmatch(r"[a-z]\w*", name) and _is_taken(name)} == set()


def _is_taken(name: str) -> bool:
    for arguments in ("s", "x", "a", "t", "l", "s, u", "x, y", "a, b", "s, 1", "s, 1, 1", "s, u, u", "t, t"):
        try:
            compile_expression(f"{name}({arguments})", SCHEMA)
        except ValueError as error:
            if "there is no function" in str(error):
                return False
            continue
        return True
    return False
