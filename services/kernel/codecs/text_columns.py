"""Decoding of records of a text format into columns with values of the column types.

Source: PROTOCOL 3. The result for a record never depends on other records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.csv_form import PLAIN, CsvForm
from holdfast.services.kernel.codecs.csv_records import CsvReader
from holdfast.services.kernel.codecs.json_records import JsonReader
from holdfast.services.kernel.codecs.plain_texts import PlainTextReader
from holdfast.services.kernel.codecs.typed_columns import Column, Values


class Reader(Protocol):
    """A reader of a text format. Column values may not fit their type: the functions of `columns` make them null."""

    def read(self, values: Sequence[bytes | None]) -> tuple[list[Values], Sequence[int], dict[int, str]]: ...
    def columns(self) -> list[Column]: ...
    def shown(self, value: Any) -> str: ...


class Columns(NamedTuple):
    """Columns with one value for each record that was read.

    columns: the values, column by column.
    kept: the positions of the records that were read.
    refused: the reason for each refused record, by position; some of these records are also in `kept`.
    """

    columns: list[pl.Series]
    kept: np.ndarray
    refused: dict[int, str]


FORMATS: dict[str, Callable[[Mapping[str, str], str | None], Reader]] = {
    "json": JsonReader,
    "csv": CsvReader,
    "text": PlainTextReader,
}


class TextColumns:
    """A reader of the records of one stream.

    Args:
        fields: the type text of each field, by its name in the record.
        names: the column names, in the same order.
        format: json, csv or text.
        unit: the unit of timestamps that are integers.
        header: the number of bytes to skip before each JSON value.
        form: the form of CSV.
    """

    def __init__(
        self,
        fields: Mapping[str, str],
        names: Sequence[str],
        format: str,
        unit: str | None,
        header: int = 0,
        form: CsvForm = PLAIN,
    ) -> None:
        self._fields = dict(zip(names, fields.values(), strict=True))
        self._reader: Reader
        if header:
            self._reader = JsonReader(fields, unit, header)
        elif format == "csv":
            self._reader = CsvReader(fields, unit, form)
        else:
            self._reader = FORMATS[format](fields, unit)
        self._columns = dict(zip(names, self._reader.columns(), strict=True))

    def read(self, values: Sequence[bytes | None]) -> Columns:
        found, read, refused = self._reader.read(values)
        # numpy would ask a range for one number after the other
        kept = np.arange(len(read)) if isinstance(read, range) else np.asarray(read, dtype=np.int64)
        series: list[pl.Series] = []
        for (name, convert), column in zip(self._columns.items(), found, strict=True):
            series.append(convert(column).alias(name))
            for position, reason in self._unfit(name, series[-1], column):
                refused.setdefault(int(kept[position]), reason)
        return Columns(series, kept, refused)

    def _unfit(self, name: str, column: pl.Series, given: Values) -> list[tuple[int, str]]:
        """The positions and reasons of nulls that were not given as null, or are not allowed."""
        text = self._fields[name]
        if not column.null_count() or (field_types.nullable(text) and column.null_count() == given.count(None)):
            return []
        unfit = []
        for position in column.is_null().arg_true().to_list():
            value = given[position]
            if value is None and field_types.nullable(text):
                continue
            found = "null" if value is None else self._reader.shown(value)
            unfit.append((position, f"{name}: expected {text}, found {found}"))
        return unfit
