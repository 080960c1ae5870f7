"""The type of an aggregate's values, by the type of its argument."""

from __future__ import annotations

import polars as pl

from holdfast.services.kernel.codecs.maps import is_map
from holdfast.services.kernel.expressions import type_words
from holdfast.services.kernel.expressions.parsing import ExpressionError
from holdfast.services.kernel.operators.collected import COLLECTING
from holdfast.services.kernel.operators.spread import VARIANCES


def result(function: str, kind: pl.DataType, text: str) -> pl.DataType:
    """The type of an aggregate's values.

    text: the argument, for messages.

    Raises:
        ExpressionError: the aggregate does not take values of this type.
    """
    if function == "count":
        return pl.Int64()
    if function in ("sum", "mean", "quantile", *VARIANCES) and not kind.is_numeric():
        number, share = type_words.as_number(text, kind), ", 0.5" if function == "quantile" else ""
        hint = f": write `{function}({number}{share})`" if number else ""
        raise ExpressionError(f"{function} needs a number, and {text} is {type_words.in_words(kind)}{hint}")
    if function in ("min", "max") and not (kind.is_numeric() or kind.is_temporal() or kind in (pl.String, pl.Boolean)):
        raise ExpressionError(
            f"{function} needs values that have an order, "
            f"and {text} is {type_words.in_words(kind)}{_taken_out(text, kind)}"
        )
    if kind.is_nested():
        raise ExpressionError(f"{function} cannot hold {type_words.in_words(kind)}{_taken_out(text, kind)}")
    if function in COLLECTING:
        return _of_collected(function, kind, text)
    if function == "count_distinct":
        return pl.Int64()
    if function in ("mean", "quantile", *VARIANCES):
        return pl.Float64()
    if kind.is_integer():
        return pl.Int64()
    if kind.is_float():
        return pl.Float64()
    if isinstance(kind, pl.Decimal):
        return pl.Decimal(38, kind.scale) if function == "sum" else kind
    return kind


def _of_collected(function: str, kind: pl.DataType, text: str) -> pl.DataType:
    if function == "string_agg":
        if kind != pl.String:
            raise ExpressionError(
                f"string_agg needs a text, and {text} is {type_words.in_words(kind)}: write "
                f"`string_agg(CAST({text} AS VARCHAR), ',')`"
            )
        return pl.String()
    if isinstance(kind, pl.Decimal) or kind == pl.Binary or kind == pl.Null:
        raise ExpressionError(f"{function} cannot hold {text}: write `{function}(CAST({text} AS VARCHAR))`")
    return pl.List(pl.Int64() if kind.is_integer() else pl.Float64() if kind.is_float() else kind)


def _taken_out(text: str, kind: pl.DataType) -> str:
    """A hint on how to take a plain value from a nested one."""
    if is_map(kind):
        return f": take one value, `MAP_GET({text}, 'key')`"
    if isinstance(kind, pl.List):
        return f": take one element, `{text}[1]`"
    return f": take one field, `{text}.{kind.fields[0].name}`" if isinstance(kind, pl.Struct) and kind.fields else ""
