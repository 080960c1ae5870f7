"""Columns as plain values that every reader of JSON accepts, with times and dates only of the years 1 to 9999.

All formats and batch sizes have one rule. A time is ISO 8601 in UTC with six digits of the second's fraction, so times
sort as texts. A decimal has as many digits after the point as its type. A time or date outside the years 1 to 9999
(which Python and ISO 8601 lack) is null, at any depth of lists, structs and maps.
Source: JOBS "A sink record is the row as a JSON object", PROTOCOL 0.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from holdfast.services.kernel.codecs import maps
from holdfast.services.kernel.codecs.timestamps import NEWEST_US, OLDEST_US

_DAY_US = 86_400_000_000
_OLDEST_DAY, _NEWEST_DAY = OLDEST_US // _DAY_US, NEWEST_US // _DAY_US
_ISO = "%Y-%m-%dT%H:%M:%S%.6fZ"
_EPOCH = datetime(1970, 1, 1)
_TIMES = (pl.Datetime, pl.Date)
_REWRITTEN = (*_TIMES, pl.Decimal)
_FEW = 32
"""Up to this number of rows Python writes times faster than polars starts; the texts are equal."""


def plain_values(column: pl.Series) -> list[Any]:
    """Values for msgspec, one a row; bytes stay bytes, floats stay floats, null is None, a map is a dict."""
    kind = column.dtype
    if maps.holds_map(kind):
        return [maps.as_dicts(value, kind) for value in _values(column)]
    return _values(column)


def _values(column: pl.Series) -> list[Any]:
    kind = column.dtype
    if isinstance(kind, pl.Decimal):
        return column.cast(pl.String).to_list()
    if not _holds(kind, _REWRITTEN):
        return column.to_list()
    if len(column) < _FEW and not kind.is_nested():
        write = _iso_date if kind == pl.Date else _iso_time
        return [None if number is None else write(number) for number in column.to_physical().to_list()]
    return column.to_frame("v").select(_text(pl.col("v"), kind)).to_series().to_list()


def within_calendar(rows: pl.DataFrame, columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The rows with null in place of times and dates outside the years 1 to 9999."""
    outside = [name for name, kind in columns.items() if _holds(kind, _TIMES) and not _all_inside(rows[name])]
    if not outside:
        return rows
    return rows.with_columns(inside(pl.col(name), columns[name]).alias(name) for name in outside)


def _iso_time(us: int) -> str | None:
    if not OLDEST_US <= us <= NEWEST_US:
        return None
    return f"{(_EPOCH + timedelta(microseconds=us)).isoformat('T', 'microseconds')}Z"


def _iso_date(day: int) -> str | None:
    return (_EPOCH + timedelta(days=day)).date().isoformat() if _OLDEST_DAY <= day <= _NEWEST_DAY else None


def _text(value: pl.Expr, kind: Any) -> pl.Expr:
    """Times, dates and decimals as texts, at any depth."""
    if isinstance(kind, pl.Datetime):
        return inside(value, kind).dt.strftime(_ISO)
    if kind == pl.Date:
        return inside(value, kind).dt.strftime("%Y-%m-%d")
    if isinstance(kind, pl.Decimal):
        return value.cast(pl.String)
    return _deep(value, kind, _text)


def inside(value: pl.Expr, kind: Any) -> pl.Expr:
    """The values of this type, with null for a time or date outside the years 1 to 9999."""
    if isinstance(kind, pl.Datetime):
        return pl.when(value.to_physical().is_between(OLDEST_US, NEWEST_US)).then(value)
    if kind == pl.Date:
        return pl.when(value.to_physical().is_between(_OLDEST_DAY, _NEWEST_DAY)).then(value)
    return _deep(value, kind, inside)


def _deep(value: pl.Expr, kind: Any, rule: Any) -> pl.Expr:
    """Applies the rule to the items of a list or the members of a struct; other values are unchanged."""
    if isinstance(kind, pl.List):
        return value.list.eval(rule(pl.element(), kind.inner))
    if isinstance(kind, pl.Struct):
        fields = [rule(value.struct.field(one.name), one.dtype).alias(one.name) for one in kind.fields]
        return pl.when(value.is_not_null()).then(pl.struct(fields))
    return value


def _holds(kind: Any, wanted: tuple[type[pl.DataType], ...]) -> bool:
    if isinstance(kind, pl.List):
        return _holds(kind.inner, wanted)
    if isinstance(kind, pl.Struct):
        return any(_holds(one.dtype, wanted) for one in kind.fields)
    return isinstance(kind, wanted)


def _all_inside(column: pl.Series) -> bool:
    """True if all times are in the years 1 to 9999. False for nested columns: the test costs as much as the
    correction.
    """
    if column.dtype.is_nested():
        return False
    least, most = column.to_physical().min(), column.to_physical().max()
    oldest, newest = (_OLDEST_DAY, _NEWEST_DAY) if column.dtype == pl.Date else (OLDEST_US, NEWEST_US)
    return least is None or (int(least) >= oldest and int(most) <= newest)  # type: ignore[arg-type]
