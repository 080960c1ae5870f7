"""Each expression of the table of SQL, with a column of another type: refused in words of the person, or right.

Source: tests/support/sql_table.py; docs/decisions/0188.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import polars as pl
import pytest

from holdfast.services.kernel.codecs.fields import schema, text_of
from holdfast.services.kernel.expressions.parsing import compile_expression, computing, result_type
from tests.support.sql_table import DIFFERENCES, EDGES, FIELDS, PHYSICAL, TABLE, columns_of
from tests.unit.kernel.expressions.test_against_duckdb import duck, duckdb, parts, plain, same, theirs
from tests.unit.kernel.expressions.test_wrong_calls import foreign

__all__ = ["duck"]
NESTED = {"g": "list<string>?", "r": "struct<p: int?>?", "w": "bytes?"}
SCHEMA = schema(FIELDS | NESTED)
VALUES = EDGES | {"g": [None, [], ["a"], ["b", None]], "r": [None, {"p": 1}], "w": [None, b"", b"a", b"\x00\xff"]}
PAIRS = ("ab", "xy", "mn", "su", "tt", "dd", ("ok", "no"), "ll", "gg", "rr", "ww")
"""Two columns of each type."""
ROWS = 12
EXCUSED = {
    r"\bm\b.*[^/]/[^/]|[^/]/[^/].*\b[mn]\b": "decimal quotient",
    r"//": "float quotient",
    r"POWER": "integer power",
    r"m \* [mn]\b": "decimal product",
    r"\bd,? ?[+-]? ?INTERVAL": "stays a date",
    r"CAST\(\w+ AS (?:INT|INTEGER|BIGINT|SMALLINT)\)": "cut",
    r"AS VARCHAR|\bt\b.*\|\||\|\|.*\bt\b|CONCAT.*\bt\b": "texts of times",
    r"XOR": "not there",
    r"CAST\([ab] AS (?:DATE|TIMESTAMP)\)|[ab]::timestamp": "numbers as times",
}
"""Differences that the docs name, by the expressions that they are in."""


class Case(NamedTuple):
    """An expression with other columns. sql: for DuckDB; empty: DuckDB writes it in another way."""

    text: str
    sql: str


def cases() -> Iterator[Case]:
    """One column replaced by one of each other type, and all columns by those of one type."""
    for entry in TABLE:
        text, sql, _ = parts(entry)
        names = columns_of(text) if re.search(r"\b(?:" + "|".join(FIELDS) + r")\b", _bare(text)) else []
        for pair in PAIRS:
            swaps = [{name: pair[0]} for name in names if _kind(name) != _kind(pair[0])]
            if len(names) > 1:
                swaps.append({name: pair[min(place, 1)] for place, name in enumerate(names)})
            for swap in swaps:
                yield Case(_swapped(text, swap), _swapped(sql, swap) if sql == text else "")


def _kind(name: str) -> str:
    return (FIELDS | NESTED)[name]


def _bare(text: str) -> str:
    return re.sub(r"'[^']*'", "''", text)


def _swapped(text: str, swap: dict[str, str]) -> str:
    return re.sub(r"'[^']*'|\w+", lambda found: swap.get(found[0], found[0]), text)


ALL = list(dict.fromkeys(cases()))


def rows(text: str) -> pl.DataFrame:
    """Edge values without NaN, which is no number here and the largest one there."""
    chance = random.Random(0)
    names = [name for name in SCHEMA if re.search(rf"\b{name}\b", _bare(text))] or ["a"]
    drawn = {name: [one for one in VALUES[name] if one == one] for name in names}
    return pl.DataFrame(
        [
            pl.Series(name, chance.choices(some, k=ROWS), dtype=PHYSICAL.get(name, SCHEMA[name])).cast(SCHEMA[name])
            for name, some in drawn.items()
        ]
    )


def ours(text: str, some: pl.DataFrame) -> list[Any]:
    whole = some.with_columns(pl.lit(None, kind).alias(name) for name, kind in SCHEMA.items() if name not in some)
    made = compile_expression(text, SCHEMA)
    text_of(result_type(made, SCHEMA))
    return plain(computing([made.alias("_value")])(whole.select(*SCHEMA))["_value"])


def faults(duck: Any, case: Case) -> str:
    """The fault of an expression, in words; empty: it is refused in words of the person, or right."""
    some = rows(case.text)
    try:
        got = ours(case.text, some)
    except ValueError as error:
        words = foreign(str(error), case.text)
        return f"{case.text} is refused with {words}: {error}" if words else ""
    except Exception as error:
        return f"{case.text} raises at a row: {error}"
    if not case.sql or any(re.search(pattern, case.text) for pattern in EXCUSED):
        return ""
    try:
        wanted = theirs(duck, case.sql, some)
    except duckdb.Error as error:
        return f"{case.text} is taken, and DuckDB refuses: {str(error).splitlines()[0]}"
    wrong = [one for one in zip(some.rows(), got, wanted, strict=True) if not same(*one[1:])]
    return f"{case.text} gives {wrong[:2]} (row, ours, DuckDB's)" if wrong else ""


def check(duck: Any, some: Sequence[Case]) -> None:
    assert set(EXCUSED.values()) <= set(DIFFERENCES)
    found = [said for case in some if (said := faults(duck, case))]
    assert not found, f"{len(found)} of {len(some)}:\n" + "\n".join(found[:30])


@pytest.mark.slow
def test_a_value_of_another_type_is_refused_plainly_or_gives_what_duckdb_gives(duck: Any) -> None:
    check(duck, random.Random(0).sample(ALL, 250))


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_every_value_of_another_type_is_refused_plainly_or_gives_what_duckdb_gives(duck: Any, part: int) -> None:
    check(duck, ALL[part::8])
