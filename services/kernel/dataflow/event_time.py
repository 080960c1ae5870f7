"""The event time that a job file computes from the fields of the record.

Source: JOBS "event_time", PROTOCOL 3. The value depends only on the record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl
from polars.exceptions import PanicException, PolarsError

from holdfast.services.kernel.codecs.fields import TIME, required, schema
from holdfast.services.kernel.codecs.timestamps import NEWEST_US, OLDEST_US, US_PER_UNIT
from holdfast.services.kernel.expressions.parsing import (
    ExpressionError,
    compile_expression,
    computing,
    is_bare,
    result_type,
)
from holdfast.services.kernel.expressions.type_words import in_words
from holdfast.services.kernel.suggestions import suggest

_TIMES = ("timestamp", "date")
_OUTSIDE = "is no time of the years 1 to 9999"


class Mistake(NamedTuple):
    """A mistake in an event time of a job file, with a hint."""

    message: str
    hint: str = ""


def computed(text: str | None, fields: Mapping[str, str]) -> bool:
    """True if an event time is an expression and not only the field that holds the time.

    fields: the type text of each column.
    """
    return text is not None and required(fields.get(text, "")) not in _TIMES


def mistakes(text: str, unit: str | None, fields: Mapping[str, str]) -> list[Mistake]:
    """The mistakes in an event time. The types of all `fields` must be known."""
    if not computed(text, fields):
        return []
    if is_bare(text) and text not in fields:
        return [Mistake(f"there is no field '{text}'", suggest(text, fields))]
    try:
        kind = result_type(compile_expression(text, schema(fields)), schema(fields))
    except ExpressionError as error:
        return [Mistake(one) for one in error.mistakes]
    if kind.is_temporal() and kind not in (pl.Time, pl.Duration):
        return []
    what = f"of type {required(fields[text])}" if text in fields else in_words(kind)
    if kind.is_integer() or kind.is_float():
        hint = "unit: s, for a number of seconds since 1970, or ms, us, ns"
        return [] if unit else [Mistake(f"'{text}' is {what}, not a time", hint)]
    hint = f"CAST({text} AS TIMESTAMP), or STRPTIME with its form" if kind == pl.String else "choose a timestamp"
    if isinstance(kind, pl.Decimal):
        hint = f"TO_TIMESTAMP({text}), for a number of seconds since 1970"
    return [Mistake(f"'{text}' is {what}, not a time", hint)]


class EventTime:
    """A function that computes event times.

    Args:
        text: an expression over the fields.
        unit: s, ms, us or ns if the value is a number.
        fields: the type text of each column.
    """

    def __init__(self, text: str, unit: str | None, fields: Mapping[str, str]) -> None:
        self.text = text
        self._factor = 1e-3 if unit == "ns" else float(US_PER_UNIT[unit or "us"])
        self._compute = computing([compile_expression(text, schema(fields)).alias(TIME)])

    def of(self, columns: Sequence[pl.Series]) -> tuple[pl.Series, dict[int, str]]:
        """Returns microseconds since 1970 (null for no time), and the error of each row at which the expression failed,
        by position.
        """
        failed: dict[int, str] = {}
        return self._computed(pl.DataFrame(columns), 0, failed), failed

    def _computed(self, rows: pl.DataFrame, start: int, failed: dict[int, str]) -> pl.Series:
        """Finds the rows at which the expression fails by halving."""
        try:
            values = self._compute(rows)[TIME]
            times = self._microseconds(values)
        except (PolarsError, PanicException) as error:
            if rows.height == 1:
                failed[start] = str(error).splitlines()[0]
                return pl.Series(TIME, [None], dtype=pl.Int64)
        else:
            if times.null_count() > values.null_count():
                lost = (times.is_null() & values.is_not_null()).arg_true().to_list()
                failed.update((start + at, f"{_shown(values[at : at + 1])} {_OUTSIDE}") for at in lost)
            return times
        middle = rows.height // 2
        first = self._computed(rows[:middle], start, failed)
        return pl.concat([first, self._computed(rows[middle:], start + middle, failed)])

    def _microseconds(self, values: pl.Series) -> pl.Series:
        time = pl.col(TIME)
        if values.dtype.is_temporal():
            time = time.cast(pl.Datetime("us")).cast(pl.Int64)
        elif values.dtype.is_integer() and self._factor < 1:
            time = time.cast(pl.Int64) // 1_000
        elif values.dtype.is_integer():
            factor = int(self._factor)
            time = pl.when(time.is_between(OLDEST_US // factor, NEWEST_US // factor)).then(time.cast(pl.Int64) * factor)
        else:
            time = (time.cast(pl.Float64) * self._factor).round()
            time = pl.when(time.is_finite() & time.is_between(OLDEST_US, NEWEST_US)).then(time).cast(pl.Int64)
        return values.to_frame().select(pl.when(time.is_between(OLDEST_US, NEWEST_US)).then(time).alias(TIME))[TIME]


def _shown(value: pl.Series) -> str:
    """The one value of a series as text. A time outside the calendar has no text of its own: its number."""
    number = str(value.to_physical()[0])
    unit = value.dtype.time_unit if isinstance(value.dtype, pl.Datetime) else "d"
    return f"{number} {unit} since 1970" if value.dtype.is_temporal() else number
