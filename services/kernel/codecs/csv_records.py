"""Decoding of CSV records into column values: one line a record, columns in the order of the fields, empty = null.

There is no header: a record that repeats the names is refused like any record that does not fit. Source: JOBS "format".
"""

from __future__ import annotations

import binascii
import csv
import io
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import polars as pl

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.csv_form import PLAIN, CsvForm
from holdfast.services.kernel.codecs.json_records import EXACT_TEXT, json_type
from holdfast.services.kernel.codecs.texts import BOM, other_encoding, unmarked
from holdfast.services.kernel.codecs.typed_columns import EXACT, Column, Values, decimals, nested, times, whole_number
from holdfast.services.kernel.plurals import plural

_BOOLS = {"true": True, "false": False}
_DATE = r"^(\d{3}[1-9]|\d{2}[1-9]\d|\d[1-9]\d{2}|[1-9]\d{3})-\d{2}-\d{2}$"
"""Dates from year 1 on, the first year of the calendar."""
_SHOWN = 60
_APART = (b"\n", b"\r", b"\0", BOM)
"""A batch with one of these bytes, or with the quote, is read record by record."""
csv.field_size_limit(2**30)  # the default refuses a text of 128 KiB


class CsvReader:
    """A reader of the records of one stream; see JsonReader."""

    def __init__(self, fields: Mapping[str, str], unit: str | None, form: CsvForm = PLAIN) -> None:
        self._fields = dict(fields)
        self._unit = unit
        self._form = form
        self._apart = (form.quote.encode(), *_APART)
        self._null = frozenset(form.null)
        self._width = len(fields)

    def read(self, values: Sequence[bytes | None]) -> tuple[list[Values], list[int], dict[int, str]]:
        """The texts of each column, the positions of their records, and the reasons why other records are refused."""
        rows, kept, refused = [], [], dict[int, str]()
        for index, found in enumerate(self._split(values)):
            if isinstance(found, str):
                refused[index] = found
            elif len(found) != self._width:
                refused[index] = (
                    f"expected {plural(self._width, 'column')} ({', '.join(self._fields)}), found {len(found)}"
                )
            else:
                rows.append(found)
                kept.append(index)
        columns = list(zip(*rows, strict=True)) if rows else [()] * self._width
        if null := self._null:
            return [[None if text in null else text or None for text in column] for column in columns], kept, refused
        return [[text or None for text in column] for column in columns], kept, refused

    def columns(self) -> list[Column]:
        return [self._column(text) for text in self._fields.values()]

    @staticmethod
    def shown(value: Any) -> str:
        text = str(value)
        return f"'{text}'" if len(text) <= _SHOWN else f"'{text[: _SHOWN - 3]}...'"

    def _split(self, values: Sequence[bytes | None]) -> list[list[str] | str]:
        """The columns of each record, or its error text."""
        try:
            joined = b"".join(values)  # type: ignore[arg-type]
            if all(values) and not any(mark in joined for mark in self._apart):
                return list(self._form.rows([value.decode() for value in values]))  # type: ignore[union-attr]
        except (TypeError, UnicodeDecodeError):  # reported one by one
            pass
        return [_columns(value, self._form) for value in values]

    def _column(self, text: str) -> Column:
        kind = field_types.dtype(text)
        if isinstance(kind, pl.Datetime):
            return lambda values: times(self._unit)(_numbers_apart(values) if self._unit else values)
        if isinstance(kind, pl.Decimal):
            return lambda values: decimals(kind)([_decimal(value) for value in values])
        if isinstance(kind, (pl.List, pl.Struct)):
            decode = msgspec.json.Decoder(json_type(text, self._unit)).decode
            # Python's own reading of a decimal takes more than EXACT does
            check = msgspec.json.Decoder(json_type(text, self._unit, EXACT_TEXT)).decode if "decimal" in text else None
            return lambda values: nested(kind, self._unit)([_json(value, decode, check) for value in values])
        if kind == pl.Boolean:
            return lambda values: pl.Series([_BOOLS.get((value or "").lower()) for value in values], dtype=pl.Boolean)
        if kind == pl.Binary:
            return lambda values: pl.Series([_bytes(value) for value in values], dtype=pl.Binary)
        return lambda values: _cast(pl.Series(values, dtype=pl.String), kind)


def _columns(value: bytes | None, form: CsvForm) -> list[str] | str:
    """The columns of one record. A quoted text may contain line breaks, but a record has only one line."""
    if not value:
        return "the record is empty"
    if other := other_encoding(value):
        return f"no CSV: the record is {other}, and is to be UTF-8"
    try:
        lines = list(form.rows(io.StringIO(unmarked(value).decode(), newline=""), strict=True))
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start}"
    except csv.Error as error:
        return f"no CSV: {error}"
    return lines[0] if len(lines) == 1 else f"expected one line, found {len(lines)}"


def _cast(texts: pl.Series, kind: pl.DataType) -> pl.Series:
    """Texts as string, int, float or date; null if a text does not fit."""
    if kind == pl.Date:
        dates = texts.to_frame("v").select(pl.when(pl.col("v").str.contains(_DATE)).then(pl.col("v"))).to_series()
        return dates.str.to_date("%Y-%m-%d", strict=False)
    numbers = texts.cast(kind, strict=False)
    if kind == pl.Int64 and numbers.null_count() > texts.null_count():
        # 4.0, as pandas writes it, and 1e3 are ints: they have no fraction.
        forms = texts.str.extract(r"^([-+]?\d+(?:\.\d+)?[eE][+-]?\d{1,3}|[-+]?\d+\.0+)$").to_list()
        whole = [None if text is None else whole_number(text) for text in forms]
        fit = [None if number is None or not -(2**63) <= number < 2**63 else number for number in whole]
        return numbers.fill_null(pl.Series(fit, dtype=kind))
    if kind == pl.Float64:
        return numbers.to_frame("v").select(pl.when(pl.col("v").is_finite()).then(pl.col("v"))).to_series()
    return numbers


def _numbers_apart(values: Values) -> list[Any]:
    numbers = pl.Series(values, dtype=pl.String).cast(pl.Int64, strict=False).to_list()
    return [text if number is None else number for text, number in zip(values, numbers, strict=True)]


def _decimal(value: str | None) -> Decimal | None:
    try:
        return None if value is None or not EXACT.fullmatch(value) else Decimal(value)
    except InvalidOperation:
        return None


def _bytes(value: str | None) -> bytes | None:
    try:
        return None if value is None else binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return None


def _json(value: str | None, decode: Any, check: Any) -> Any:
    try:
        if check is not None and value is not None:
            check(value)
        return None if value is None else decode(value)
    except (msgspec.MsgspecError, RecursionError):
        return None
