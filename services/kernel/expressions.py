"""The expressions of a job file: polars SQL, a row in, a value out.

Source: JOBS "Expressions are polars SQL expressions", PROTOCOL 4 (division by zero gives null).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from services.kernel.planning.suggestions import suggest

_BARE = re.compile(r"[A-Za-z_]\w*")
_NAMED = re.compile(r"(?is)^(?P<expression>.+?)\s+AS\s+(?P<quote>\"?)(?P<name>[A-Za-z_]\w*)(?P=quote)\s*$")
_MOVING = re.compile(r"(?i)\b(random|rand|now|current_timestamp|current_date|uuid)\b\s*(\(|$)")
_OTHER_ROWS = re.compile(
    r"(?i)\b(sum|avg|mean|min|max|count|first|last|median|stddev|variance|quantile|corr|covar|over)\b(_\w+)?\s*\("
)
_MISSING = re.compile(r"(?:unable to find column|column not found:?|not found:?)\s*[\"'`]?(\w+)")


_DIVISIONS = ({"Sql": {"Binary": "Div"}}, {"Sql": {"Binary": "Rem"}})


class ExpressionError(ValueError):
    """What is wrong with an expression; the hint is part of the text."""


def name_of(item: str) -> str:
    """The column that a select item makes: its own name, or what follows AS.

    Raises:
        ExpressionError: for an expression without a name.
    """
    item = item.strip()
    if match := _NAMED.match(item):
        return match["name"]
    if _BARE.fullmatch(item):
        return item
    raise ExpressionError(f"'{item}' has no name: write '{item} AS name'")


def source_of(item: str) -> str:
    """The expression of a select item, without AS."""
    match = _NAMED.match(item.strip())
    return match["expression"] if match else item.strip()


def is_bare(item: str) -> bool:
    """Whether the item is a column as it is, under its own name."""
    return _BARE.fullmatch(item.strip()) is not None


def compile_expression(text: str, schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """A polars expression that gives one value a row.

    Raises:
        ExpressionError: it cannot be parsed, names unknown columns, mixes types, or is no function of the row.
    """
    if match := _MOVING.search(text):
        raise ExpressionError(f"{match[1]}() gives another value at each replay; results must depend on the data alone")
    if match := _OTHER_ROWS.search(text):
        raise ExpressionError(f"{match[1]}() looks at other rows: use an aggregate or top operator")
    try:
        expression = _guard_division(pl.sql_expr(text))
        _check(expression, text, schema)
    except (PolarsError, RecursionError) as error:
        raise ExpressionError(_plain(str(error), schema)) from error
    return expression


def result_type(expression: pl.Expr, schema: Mapping[str, pl.DataType]) -> pl.DataType:
    """The type of the expression's values."""
    return pl.DataFrame(schema=dict(schema)).lazy().select(_value=expression).collect_schema()["_value"]


def _check(expression: pl.Expr, text: str, schema: Mapping[str, pl.DataType]) -> None:
    """One value a row, whatever the other rows are: tried on two rows of nulls and on none."""
    unknown = [name for name in expression.meta.root_names() if name not in schema]
    if unknown:
        raise ExpressionError(_unknown(unknown[0], schema))
    two = pl.DataFrame({name: pl.Series(name, [None, None], dtype=kind) for name, kind in schema.items()})
    heights = [two.head(rows).select(_value=expression).height for rows in (2, 1)]
    if expression.meta.root_names() and heights != [2, 1]:
        raise ExpressionError(f"'{text}' gives one value for many rows: use an aggregate operator")


def _guard_division(expression: pl.Expr) -> pl.Expr:
    """Every divisor becomes NULLIF(divisor, 0): polars would give infinity or NaN."""
    if "div" not in str(expression) and "rem" not in str(expression):
        return expression
    tree = _guarded(json.loads(expression.meta.serialize(format="json")))
    return pl.Expr.deserialize(io.StringIO(json.dumps(tree)), format="json")


def _guarded(node: Any) -> Any:
    if isinstance(node, list):
        return [_guarded(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {name: _guarded(value) for name, value in node.items()}
    function = node.get("Function")
    if isinstance(function, dict) and function.get("function") in _DIVISIONS:
        dividend, divisor = function["input"]
        node["Function"] = function | {"input": [dividend, _null_if_zero(divisor)]}
    return node


def _null_if_zero(divisor: Any) -> Any:
    template = pl.sql_expr("NULLIF(_divisor, 0)").meta.serialize(format="json")
    return json.loads(template.replace('{"Column":"_divisor"}', json.dumps(divisor)))


def _plain(message: str, schema: Mapping[str, pl.DataType]) -> str:
    if match := _MISSING.search(message):
        return _unknown(match[1], schema)
    return message.splitlines()[0]


def _unknown(name: str, schema: Mapping[str, pl.DataType]) -> str:
    columns = [column for column in schema if not column.startswith("_")]
    hint = suggest(name, columns)
    return f"there is no column '{name}'" + (f" ({hint})" if hint else "")
