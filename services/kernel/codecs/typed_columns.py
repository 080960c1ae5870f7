"""Conversion of column values to series of the stream's types.

A value that does not fit becomes null; the caller compares the result with the given values. Source: JOBS "Field
types".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import lru_cache
from typing import Any

import polars as pl
import pyarrow as pa

from holdfast.services.kernel.codecs import maps, timestamps

Values = Sequence[Any]
Column = Callable[[Values], pl.Series]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = pl.Datetime("us", "UTC")


_MOST_DIGITS = 19


def whole_number(text: str) -> int | None:
    """The integer of a number in any form, such as 4.0 or 1e3; None if it has a fraction or too many digits for an
    int.
    """
    number = Decimal(text)
    return None if number.adjusted() >= _MOST_DIGITS or number != int(number) else int(number)


def plain(kind: pl.DataType) -> Column:
    """A conversion of values that already have the right Python type."""
    return lambda values: pl.Series(values, dtype=kind)


def times(unit: str | None) -> Column:
    """A conversion of ISO 8601 texts, or of integers in the unit."""
    return lambda values: _microseconds(values, unit).cast(_TIMESTAMP)


def _microseconds(values: Values, unit: str | None) -> pl.Series:
    kinds = set(map(type, values))
    if unit is None or int not in kinds:
        return timestamps.parse(values)
    if str not in kinds:
        return timestamps.scaled(values, unit)
    numbers = timestamps.scaled([None if isinstance(value, str) else value for value in values], unit)
    return numbers.fill_null(timestamps.parse([value if isinstance(value, str) else None for value in values]))


EXACT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
"""A decimal as a text. Python also accepts `1_000`, ` 1.5 ` and digits of other scripts."""


def decimals(kind: pl.Decimal) -> Column:
    """An exact conversion of decimals: a number with more digits than the type does not fit."""
    return lambda values: pl.Series(_decimals(values, kind), dtype=kind)


def _decimals(values: Values, kind: pl.Decimal) -> pa.Array:
    """Passes to Arrow only numbers that its type holds: some numbers with more digits after the point end the process
    in Arrow, and others are changed.
    """
    unit, exactly = _exactly(kind.precision, kind.scale)
    arrow = pa.decimal128(kind.precision, kind.scale)
    try:
        return pa.array([None if value is None else value.quantize(unit, None, exactly) for value in values], arrow)
    except (ArithmeticError, pa.ArrowInvalid):  # NaN stays NaN, which Arrow refuses
        return pa.array([_held(value, kind) for value in values], arrow)


@lru_cache(maxsize=64)
def _exactly(precision: int, scale: int) -> tuple[Decimal, Context]:
    """The last digit of a type, and a context that raises ArithmeticError for a number that the type does not hold."""
    return Decimal((0, (1,), -scale)), Context(prec=precision, traps=[Inexact, InvalidOperation, Overflow])


def _held(value: Decimal | None, kind: pl.Decimal) -> Decimal | None:
    """The value with the digits of the type, because Arrow refuses zeros with some exponents; None if it does not
    fit.
    """
    unit, exactly = _exactly(kind.precision, kind.scale)
    try:
        found = None if value is None else value.quantize(unit, None, exactly)
    except ArithmeticError:
        return None
    return found if found is not None and found.is_finite() else None


def nested(kind: pl.DataType, unit: str | None) -> Column:
    """A conversion of lists, structs and maps, value by value; a map is given as a dict."""
    return lambda values: pl.Series([_inner(value, kind, unit) for value in values], dtype=kind)


class _Unfit(Exception):
    """The error of a value inside a list, struct or map with another type: the whole value does not fit."""


def _inner(value: Any, kind: Any, unit: str | None) -> Any:
    try:
        return _converted(value, kind, unit)
    except _Unfit:
        return None


def _converted(value: Any, kind: Any, unit: str | None) -> Any:
    if value is None:
        return None
    if maps.is_map(kind):
        inner = maps.value_of(kind)
        return maps.entries({key: _converted(one, inner, unit) for key, one in value.items()})
    if isinstance(kind, pl.List):
        return [_converted(item, kind.inner, unit) for item in value]
    if isinstance(kind, pl.Struct):
        return {field.name: _converted(value.get(field.name), field.dtype, unit) for field in kind.fields}
    if isinstance(kind, pl.Datetime):
        return moment(value, unit)
    if isinstance(kind, pl.Decimal):
        if (held := _held(value, kind)) is None:
            raise _Unfit
        return held
    return value


def as_entries(value: Any, kind: Any) -> Any:
    """A value with the entries of a map in place of each dict that is one, at any depth."""
    if value is None or not maps.holds_map(kind):
        return value
    if maps.is_map(kind):
        inner = maps.value_of(kind)
        return maps.entries({key: as_entries(one, inner) for key, one in value.items()})
    if isinstance(kind, pl.List):
        return [as_entries(item, kind.inner) for item in value]
    return {one.name: as_entries(value.get(one.name), one.dtype) for one in kind.fields}


def moment(value: Any, unit: str | None) -> datetime:
    us = _microseconds([value], unit)[0]
    if us is None:
        raise _Unfit
    return _EPOCH + timedelta(microseconds=us)
