"""Output of a Python operator, held to its declaration.

Source: JOBS "Field types".
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from holdfast.services.kernel.codecs.fields import dtype, nullable, schema, text_of, widens, with_time
from holdfast.services.kernel.codecs.plain_values import within_calendar
from holdfast.services.kernel.operators.operator import TIME
from holdfast.services.kernel.plurals import with_article


class OutputError(Exception):
    """The rows are not what `output` says."""


class OutputShape:
    """Declared columns. nothing: no rows of them."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = dict(fields)
        self.nothing = with_time(schema(fields)).to_frame()

    def checked(self, rows: object, time: int) -> pl.DataFrame:
        """The declared columns and the event time, `time` where the rows have none.

        Raises:
            OutputError: naming the column at fault.
        """
        if rows is None:
            return self.nothing
        if not isinstance(rows, pl.DataFrame):
            raise OutputError(f"returned {with_article(type(rows).__name__)}, not a polars DataFrame or None")
        columns = [_column(rows, name, text) for name, text in self._fields.items()]
        return pl.DataFrame([*columns, _times(rows, time)])


def _column(rows: pl.DataFrame, name: str, text: str) -> pl.Series:
    if name not in rows.columns:
        raise OutputError(f"the output has no column '{name}', it has {', '.join(rows.columns) or 'none'}")
    column, wanted = rows[name], dtype(text)
    if column.dtype != wanted:
        if not widens(column.dtype, wanted):
            raise OutputError(f"the output's column '{name}' is {_name(column.dtype)}, not {text}")
        column = column.cast(wanted)
    inside = within_calendar(column.to_frame(name), {name: wanted})[name]
    if inside.null_count() > column.null_count() and not nullable(text):
        raise OutputError(f"the output's column '{name}' holds a time outside the years 1 to 9999: declare it {text}?")
    column = inside
    if column.null_count() and not nullable(text):
        raise OutputError(f"the output's column '{name}' holds null, and {text} may not: declare it {text}?")
    return column


def _times(rows: pl.DataFrame, time: int) -> pl.Series:
    if TIME not in rows.columns:
        return pl.Series(TIME, [time], dtype=pl.Int64).new_from_index(0, rows.height)
    column = rows[TIME]
    if column.dtype != pl.Int64 or column.null_count():
        raise OutputError(f"the output's column '{TIME}' is not an int in every row: microseconds since 1970")
    return column


def _name(kind: pl.DataType) -> str:
    try:
        return text_of(kind, may_be_null=False)
    except ValueError:
        return str(kind)
