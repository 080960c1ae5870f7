"""Arrow records: many rows in one Kafka record, as an Arrow IPC stream or file. Reading is strict, writing is bounded.

A record is a row group: its columns are found by name, in any order, and other columns are ignored. Either all of its
rows are taken or none. Every claim of a record is checked before rows are made from it.
Source: JOBS "format", PROTOCOL 3 (one record = one offset).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.frames import RowCodec
from holdfast.services.kernel.codecs.plain_values import within_calendar
from holdfast.services.kernel.codecs.timestamps import NEWEST_US, OLDEST_US, US_PER_UNIT

MAX_ROWS = 1_000_000
"""The most rows of a record that is read: columns without values take no bytes, for any claimed number of rows."""
MAX_TEXT_BYTES = 256 * 1024 * 1024
"""The most bytes of text of a record that is read: many rows may point to one long text."""
MAX_RECORD_BYTES = 512 * 1024
"""The most bytes of a written record, unless a single row is larger: half of the default limit of topics."""

_FILE = b"ARROW1"
_BROKEN = (
    pa.ArrowException, OSError, ValueError, OverflowError, pl.exceptions.PolarsError, pl.exceptions.PanicException,
)  # fmt: skip
"""Errors of reading bytes that are not valid Arrow. Arrow's validation accepts views that are not UTF-8, at which
polars panics.
"""
_DAY_US = 86_400_000_000
_VIEW = np.dtype([("length", "<i4"), ("prefix", "V4"), ("buffer", "<i4"), ("begin", "<i4")])
_TYPES = 1_000
"""The number of Arrow types for which the result of the test is cached."""
_INSIDE = 12
"""A text of up to this many bytes is stored in the view itself."""


class UnfitRecord(Exception):
    """The reason why a record gives no rows."""


class _Wanted(NamedTuple):
    """A column of the stream."""

    name: str
    text: str
    kind: pl.DataType
    nullable: bool


class ArrowReader:
    """A reader of the records of one stream."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._wanted = [
            _Wanted(name, text, field_types.dtype(text), field_types.nullable(text)) for name, text in fields.items()
        ]
        self.nothing = field_types.schema(fields).to_frame()

    def read(self, value: bytes | None) -> pl.DataFrame:
        """The rows of a record, with the stream's columns. Raises UnfitRecord."""
        try:
            table = _table(value)
            names = table.schema.names
            columns = [_column(table, names, wanted) for wanted in self._wanted]
        except _BROKEN as error:
            raise UnfitRecord(f"no Arrow stream: {_first_line(error)}") from None
        return pl.DataFrame(columns)


def _column(table: pa.Table, names: Sequence[str], column: _Wanted) -> pl.Series:
    name, text, wanted, nullable = column
    if (count := names.count(name)) != 1:
        if count == 0 and nullable:
            return pl.Series(name, [None], dtype=wanted).new_from_index(0, table.num_rows)
        raise UnfitRecord(f"{name}: {'is missing' if count == 0 else 'is there twice'}, expected {text}")
    array = _plain(table.column(names.index(name)))
    if not _readable(array.type):
        raise UnfitRecord(f"{name}: expected {text}, found {array.type}")
    if _is_checked(array.type):
        _check(name, array)
    given = pl.Series(name, array)
    found = given.dtype
    if found.is_float() and wanted == pl.Int64:
        given = _whole(name, given, text)
        found = given.dtype
    if found == wanted:
        series, lost = given, False
    else:
        if not (field_types.widens(found, wanted) or _rescales(found, wanted)):
            raise UnfitRecord(f"{name}: expected {text}, found {array.type}")
        series = given.cast(wanted, strict=False)
        lost = series.null_count() > given.null_count()
    if lost or (not nullable and series.null_count()):
        row = (series.is_null() & given.is_not_null() if lost else series.is_null()).arg_true()[0]
        raise UnfitRecord(f"{name}: expected {text}, found {given[row] if lost else 'null'} in row {row}")
    return series


def _whole(name: str, given: pl.Series, text: str) -> pl.Series:
    """Returns floats without a fraction as integers: pandas holds an integer column with nulls as floats. Raises
    UnfitRecord.
    """
    numbers = given.cast(pl.Int64, strict=False)
    unfit = given.is_not_null() & (numbers.is_null() | (numbers.cast(pl.Float64) != given.cast(pl.Float64)))
    for row in unfit.fill_null(True).arg_true().to_list()[:1]:
        hint = ", which is no number: write null" if given.is_nan()[row] else ""
        raise UnfitRecord(f"{name}: expected {text}, found {given[row]} in row {row}{hint}")
    return numbers


def encode_arrow(rows: pl.DataFrame, fields: Mapping[str, str]) -> list[bytes]:
    """Encodes rows as records, without the event time; splits a record that is too large. Equal rows give equal bytes.

    Times and dates outside the years 1 to 9999 become null, as in JSON; so the reader accepts all others.
    """
    if not rows.height:
        return []
    schema = field_types.schema(fields)
    return _encoded(RowCodec(schema), within_calendar(rows, schema))


def _encoded(codec: RowCodec, rows: pl.DataFrame) -> list[bytes]:
    whole = codec.stream(rows)
    if len(whole) <= MAX_RECORD_BYTES or rows.height == 1:
        return [whole]
    half = rows.height // 2
    return [*_encoded(codec, rows.slice(0, half)), *_encoded(codec, rows.slice(half))]


Halves = Callable[[bytes], list[bytes]]
"""Splits a record into two with half of its rows each; returns an empty list for a single row."""


def halves(value: bytes) -> list[bytes]:
    """Splits a record of `encode_arrow` into two with half of its rows each; returns an empty list for a single row."""
    rows = pl.read_ipc_stream(value)
    if rows.height < 2:
        return []
    codec, half = RowCodec(rows.schema), rows.height // 2
    return [codec.stream(rows.slice(0, half)), codec.stream(rows.slice(half))]


def _table(value: bytes | None) -> pa.Table:
    """The batches of a record as one table, after all checks. Raises UnfitRecord."""
    if not value:
        raise UnfitRecord("the record is empty")
    batches: list[Any] = []
    count = 0
    source = pa.ipc.open_file(pa.py_buffer(value)) if value.startswith(_FILE) else pa.ipc.open_stream(value)
    for batch in _batches(source):
        count += batch.num_rows
        if count > MAX_ROWS:
            raise UnfitRecord(f"over {MAX_ROWS:,} rows in a record")
        batch.validate(full=True)
        batches.append(batch)
    return pa.Table.from_batches(batches, source.schema)


def _batches(source: Any) -> Sequence[Any] | Any:
    return map(source.get_batch, range(source.num_record_batches)) if hasattr(source, "get_batch") else source


def _plain(column: Any) -> Any:
    """The column in one chunk, with times of another zone as the same moments in UTC."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if types.is_timestamp(array.type) and array.type.tz is not None:
        return array.cast(pa.timestamp(array.type.unit, "UTC"))
    return array


@lru_cache(_TYPES)
def _readable(kind: Any) -> bool:
    """True if polars reads the type into a field type. Other types, such as dictionaries, never reach polars."""
    # polars panics at the name of a field that is no UTF-8, which is a ValueError here, and ends one at its first zero
    if types.is_list(kind) or types.is_large_list(kind):
        return "\0" not in kind.value_field.name and _readable(kind.value_type)
    if types.is_struct(kind):
        return all("\0" not in one.name and _readable(one.type) for one in kind)
    if types.is_timestamp(kind):
        return kind.tz in (None, "UTC")
    is_one = (
        types.is_integer, types.is_float32, types.is_float64, types.is_boolean, types.is_null, types.is_date32,
        types.is_decimal128, types.is_string, types.is_large_string, types.is_string_view, types.is_binary,
        types.is_large_binary, types.is_binary_view,
    )  # fmt: skip
    return any(is_kind(kind) for is_kind in is_one)


@lru_cache(_TYPES)
def _is_checked(kind: Any) -> bool:
    """True if `_check` checks values of the type."""
    if types.is_list(kind) or types.is_large_list(kind):
        return _is_checked(kind.value_type)
    if types.is_struct(kind):
        return any(_is_checked(kind.field(index).type) for index in range(kind.num_fields))
    is_one = (types.is_timestamp, types.is_date32, types.is_string_view, types.is_binary_view)
    return any(is_kind(kind) for is_kind in is_one)


def _rescales(given: pl.DataType, wanted: pl.DataType) -> bool:
    """True if decimals are read with more digits after the point; each value is then checked."""
    return isinstance(given, pl.Decimal) and isinstance(wanted, pl.Decimal) and given.scale <= wanted.scale


def _check(name: str, array: Any) -> None:
    """Checks that times are in the years 1 to 9999 and that texts are inside their buffers, at any depth. Raises
    UnfitRecord.
    """
    kind = array.type
    if types.is_list(kind) or types.is_large_list(kind):
        _check(name, array.values)
    elif types.is_struct(kind):
        for index in range(kind.num_fields):
            _check(name, array.field(index))
    elif types.is_timestamp(kind) and kind.unit != "ns":
        factor = US_PER_UNIT[kind.unit]
        _check_range(name, array.view(pa.int64()), OLDEST_US // factor, NEWEST_US // factor)
    elif types.is_date32(kind):
        _check_range(name, array.view(pa.int32()), OLDEST_US // _DAY_US, NEWEST_US // _DAY_US)
    elif len(array) and (types.is_string_view(kind) or types.is_binary_view(kind)):
        _check_views(name, array)


def _check_views(name: str, array: Any) -> None:
    """Checks the position of each text. Arrow's validation does not, and reading a text from elsewhere ends the
    process.
    """
    _, where, *buffers = array.buffers()
    views = np.frombuffer(where, _VIEW)[array.offset : array.offset + len(array)]
    sizes = np.array([0 if buffer is None else buffer.size for buffer in buffers], dtype=np.int64)
    lengths = views["length"].astype(np.int64)
    apart = views[lengths > _INSIDE]
    index, begin = apart["buffer"], apart["begin"].astype(np.int64)
    if (lengths < 0).any() or (index < 0).any() or (index >= len(sizes)).any() or (begin < 0).any():
        raise UnfitRecord(f"{name}: a text lies nowhere")
    if len(apart) and (begin + apart["length"] > sizes[index]).any():
        raise UnfitRecord(f"{name}: a text lies nowhere")
    if int(lengths.sum()) > MAX_TEXT_BYTES:
        raise UnfitRecord(f"{name}: over {MAX_TEXT_BYTES >> 20} MiB of text in a record")


def _check_range(name: str, numbers: Any, least: int, most: int) -> None:
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and not least <= found["min"] <= found["max"] <= most:
        raise UnfitRecord(f"{name}: a time outside the years 1 to 9999")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
