"""The output of a Python operator, checked against its declaration. Source: JOBS "Field types"."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from holdfast.services.kernel.codecs import maps
from holdfast.services.kernel.codecs.fields import dtype, nullable, schema, text_of, widens, with_time
from holdfast.services.kernel.codecs.plain_values import within_calendar
from holdfast.services.kernel.operators.operator import TIME
from holdfast.services.kernel.operators.side_output import WHICH, column_of, together
from holdfast.services.kernel.plurals import with_article


class OutputError(Exception):
    """The error of rows that do not match `output`."""


class OutputShape:
    """Declared columns.

    Args:
        fields: the type text of each column.
        name: the name of the output, for messages.

    nothing: an empty frame with these columns.
    """

    def __init__(self, fields: Mapping[str, str], name: str = "output") -> None:
        self._fields = dict(fields)
        self._name = name
        self.nothing = with_time(schema(fields)).to_frame()

    def checked(self, rows: object, time: int) -> pl.DataFrame:
        """The declared columns and the event time; `time` for rows without one.

        Raises:
            OutputError: the rows do not match the declared columns.
        """
        if rows is None:
            return self.nothing
        if not isinstance(rows, pl.DataFrame):
            raise OutputError(f"returned {with_article(type(rows).__name__)}, not a polars DataFrame or None")
        columns = [_column(rows, name, text, self._name) for name, text in self._fields.items()]
        return pl.DataFrame([*columns, _times(rows, time, self._name)])


class SeveralShapes:
    """The declared columns of several outputs.

    nothing: an empty frame with the columns of all outputs.
    """

    def __init__(self, outputs: Mapping[str, Mapping[str, str]]) -> None:
        self._shapes = {name: OutputShape(fields, f"output '{name}'") for name, fields in outputs.items()}
        self._names = {name: {one: column_of(name, one) for one in fields} for name, fields in outputs.items()}
        self.nothing = with_time(schema(together({name: dict(fields) for name, fields in outputs.items()}))).to_frame()

    def checked(self, found: object, time: int) -> pl.DataFrame:
        """The rows of all outputs, in the order of their declaration.

        Raises:
            OutputError: the rows of an output do not match its columns; the error names the output.
        """
        if found is None:
            return self.nothing
        names = ", ".join(self._shapes)
        if not isinstance(found, Mapping):
            raise OutputError(f"returned {with_article(type(found).__name__)}, not a dict of frames by output: {names}")
        if unknown := next((name for name in found if name not in self._shapes), None):
            raise OutputError(f"returned rows for '{unknown}', and the outputs are {names}")
        parts = [self._part(name, found.get(name), time) for name in self._shapes]
        return pl.concat([self.nothing, *(part for part in parts if part.height)], how="diagonal")

    def _part(self, name: str, rows: object, time: int) -> pl.DataFrame:
        part = self._shapes[name].checked(rows, time).rename(self._names[name])
        return part.with_columns(pl.lit(name).alias(WHICH))


def _column(rows: pl.DataFrame, name: str, text: str, output: str) -> pl.Series:
    if name not in rows.columns:
        raise OutputError(f"the {output} has no column '{name}', it has {', '.join(rows.columns) or 'none'}")
    column, wanted = rows[name], dtype(text)
    if maps.holds_map(wanted) and maps.may_be_map(column.dtype, wanted):
        made = maps.canonical(pl.col(name), column.dtype, wanted)
        column = column.to_frame(name).select(made.alias(name)).to_series()
        if any(maps.holds_null_key(value, wanted) for value in column):
            raise OutputError(f"the {output}'s column '{name}' holds a map with a key that is null")
    if column.dtype != wanted:
        if not widens(column.dtype, wanted):
            raise OutputError(f"the {output}'s column '{name}' is {_name(column.dtype)}, not {text}")
        column = column.cast(wanted)
    inside = within_calendar(column.to_frame(name), {name: wanted})[name]
    if inside.null_count() > column.null_count() and not nullable(text):
        raise OutputError(
            f"the {output}'s column '{name}' holds a time outside the years 1 to 9999: declare it {text}?"
        )
    column = inside
    if column.null_count() and not nullable(text):
        raise OutputError(f"the {output}'s column '{name}' holds null, and {text} may not: declare it {text}?")
    return column


def _times(rows: pl.DataFrame, time: int, output: str) -> pl.Series:
    if TIME not in rows.columns:
        return pl.Series(TIME, [time], dtype=pl.Int64).new_from_index(0, rows.height)
    column = rows[TIME]
    if column.dtype != pl.Int64 or column.null_count():
        raise OutputError(f"the {output}'s column '{TIME}' is not an int in every row: microseconds since 1970")
    return column


def _name(kind: pl.DataType) -> str:
    try:
        return text_of(kind, may_be_null=False)
    except ValueError:
        return str(kind)
