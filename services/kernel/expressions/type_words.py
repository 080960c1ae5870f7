"""Types of columns in everyday words, and the types of a job file in messages of polars."""

from __future__ import annotations

import re

import polars as pl

from holdfast.services.kernel.codecs.maps import is_map


def item_of(kind: pl.List) -> pl.DataType:
    """The type of a list's items."""
    return kind.inner if isinstance(kind.inner, pl.DataType) else kind.inner()


def in_words(kind: pl.DataType) -> str:
    """A type in everyday words."""
    if kind.is_integer():
        return "a whole number"
    if kind.is_numeric():
        return "a number"
    for some, words in ((pl.String, "text"), (pl.Boolean, "true or false"), (pl.Date, "a date"), (pl.Binary, "bytes")):
        if kind == some:
            return words
    if is_map(kind):
        return "a map"
    for nested, words in ((pl.Datetime, "a time"), (pl.Duration, "a span of time"), (pl.List, "a list")):
        if isinstance(kind, nested) or kind == nested:
            return words
    return "a struct" if isinstance(kind, pl.Struct) else f"of type {kind}"


def as_number(text: str, kind: pl.DataType) -> str:
    """The expression as a number; empty if there is no such expression."""
    if kind == pl.String:
        return f"CAST({text} AS DOUBLE)"
    if kind == pl.Boolean:
        return f"CAST({text} AS BIGINT)"
    return f"EXTRACT(EPOCH FROM {text})" if isinstance(kind, pl.Datetime) else ""


_NAMES = (
    (r"\bdatetime\[μs, UTC\]|\bDatetime\([^)]*\)|\bdatetime\[μs\]", "timestamp"),
    (r"\b(?:dyn int|[iu](?:8|16|32|64|128)|U?[Ii]nt(?:8|16|32|64|128))\b", "int"),
    (r"\b(?:dyn float|f32|f64|Float32|Float64)\b", "float"),
    (r"\bdyn str\b|`str`|\bstr\b|\bString\b|`String`", "string"),
    (r"\bBoolean\b", "bool"),
    (r"\bBinary\b|\bbinary\b", "bytes"),
    (r"\bduration\[[^\]]*\]|\bDuration\([^)]*\)", "span of time"),
)


def plain_types(message: str) -> str:
    """A message of polars with the types of a job file."""
    for pattern, name in _NAMES:
        message = re.sub(pattern, name, message)
    return message
