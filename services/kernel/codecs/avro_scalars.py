"""Decoding of the values of Avro records that are no lists, structs or unions, of all records at once."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs import timestamps
from holdfast.services.kernel.codecs.avro_bytes import Read, Records, Rows, binaries, texts
from holdfast.services.kernel.codecs.avro_schemas import Type
from holdfast.services.kernel.codecs.maps import KEY, VALUE
from holdfast.services.kernel.codecs.timestamps import NEWEST_US, OLDEST_US

_EXACT = Context(prec=field_types.MAX_PRECISION)
_DAY_US = 86_400_000_000
_TIMESTAMP = pa.timestamp("us", "UTC")
PER_MICROSECOND = {"millis": 1_000, "micros": 1, "nanos": -1_000}
_ARROW = {
    "string": pa.large_string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(),
    "timestamp": _TIMESTAMP, "date": pa.date32(), "bytes": pa.large_binary(),
}  # fmt: skip
WIDTHS = {"float": 4, "double": 8}


class Unresolved(Exception):
    """The reason why records of a schema do not give the fields of a stream."""


def simple(type: Type, name: str, path: str) -> Read:
    if type.kind in ("int", "long"):
        read = partial(_integers, narrow=type.kind == "int", path=path)
        return read if name == "int" else lambda records, rows: read(records, rows).cast(pa.float64(), safe=False)
    if type.kind in WIDTHS:
        return partial(_floats, width=WIDTHS[type.kind], path=path)
    if type.kind == "boolean":
        return partial(_booleans, path=path)
    if type.kind == "enum":
        return partial(_symbols, symbols=pa.array(type.symbols, pa.large_string()), path=path)
    if type.kind == "fixed":
        return partial(_fixed, size=type.size, path=path)
    return partial(texts if name == "string" else binaries, path=path)


def nothing(records: Records, rows: Rows, text: str, path: str) -> pa.Array:
    if not field_types.nullable(text):
        records.refuse(rows, f"{path}: expected {text}, found null")
    return pa.nulls(len(rows), arrow_type(text))


def _integers(records: Records, rows: Rows, narrow: bool, path: str) -> pa.Array:
    values = records.numbers(rows, path)
    if narrow:
        wide = (values < -(2**31)) | (values >= 2**31)
        records.refuse(rows[wide], f"{path}: a number of more than 32 bits, where the schema says int")
    return pa.array(values)


def _floats(records: Records, rows: Rows, width: int, path: str) -> pa.Array:
    raw = np.ascontiguousarray(records.fixed(rows, width, path))
    with np.errstate(invalid="ignore"):  # a signalling NaN in the data makes numpy warn
        return pa.array(raw.view(f"<f{width}").reshape(len(rows)).astype(np.float64))


def _booleans(records: Records, rows: Rows, path: str) -> pa.Array:
    raw = records.fixed(rows, 1, path).reshape(len(rows))
    records.refuse(rows[raw > 1], f"{path}: a boolean that is neither 0 nor 1")
    return pa.array(raw == 1)


def _symbols(records: Records, rows: Rows, symbols: pa.Array, path: str) -> pa.Array:
    return symbols.take(pa.array(ordinals(records, rows, len(symbols), f"{path}: the enum")))


def ordinals(records: Records, rows: Rows, count: int, what: str) -> np.ndarray:
    """Reads a number below `count` of each record; 0 for a refused record."""
    found = records.numbers(rows, what)
    wrong = (found < 0) | (found >= count)
    for number in np.unique(found[wrong]).tolist():
        records.refuse(rows[found == number], f"{what} has no number {number}")
    return np.where(wrong, 0, found)


def _fixed(records: Records, rows: Rows, size: int, path: str) -> pa.Array:
    raw = np.ascontiguousarray(records.fixed(rows, size, path))
    return pa.Array.from_buffers(pa.binary(size), len(rows), [None, pa.py_buffer(raw)]).cast(pa.large_binary())


def dates(records: Records, rows: Rows, path: str) -> pa.Array:
    days = records.numbers(rows, path)
    outside = (days < OLDEST_US // _DAY_US) | (days > NEWEST_US // _DAY_US)
    records.refuse(rows[outside], f"{path}: a date outside the years 1 to 9999")
    return pa.array(np.where(outside, 0, days).astype(np.int32)).cast(pa.date32())


def times(records: Records, rows: Rows, factor: int, path: str) -> pa.Array:
    """Reads times.

    factor: microseconds in one unit; a negative factor is the number of units in one microsecond.
    """
    found = records.numbers(rows, path)
    if factor < 0:
        found = found // -factor
    oldest, newest = (OLDEST_US, NEWEST_US) if factor < 0 else (OLDEST_US // factor, NEWEST_US // factor)
    outside = (found < oldest) | (found > newest)
    records.refuse(rows[outside], f"{path}: a time outside the years 1 to 9999")
    return pa.array(np.where(outside, 0, found) * max(1, factor)).cast(_TIMESTAMP)


def written_times(records: Records, rows: Rows, path: str) -> pa.Array:
    """Reads times in ISO 8601, as in JSON."""
    given = texts(records, rows, path)
    found = timestamps.parse(given.to_pylist())
    for position in found.is_null().arg_true().to_list():
        records.refuse(rows[position : position + 1], f"{path}: expected timestamp, found '{given[position]}'")
    return pa.array(found.fill_null(0).to_numpy()).cast(_TIMESTAMP)


def decimal(type: Type, text: str, path: str) -> Read:
    wanted = arrow_type(text)
    if type.scale > wanted.scale or type.precision - type.scale > wanted.precision - wanted.scale:
        raise Unresolved(f"has {path} as {type.shown}, expected {text}")
    return partial(_decimals, type=type, wanted=wanted, path=path)


def _decimals(records: Records, rows: Rows, type: Type, wanted: pa.DataType, path: str) -> pa.Array:
    """Reads decimals in two's complement, highest byte first."""
    if type.kind == "fixed":
        begin, lengths = records.at[rows], np.full(len(rows), type.size)
        records.fixed(rows, type.size, path)
        lengths = np.where(begin + lengths > records.end[rows], 0, lengths)
    else:
        begin, lengths = records.pieces(rows, path)
    records.refuse(rows[lengths > 16], f"{path}: a number with more digits than {type.shown} has")
    lengths = np.where(lengths > 16, 0, lengths)
    lowest_first = np.zeros((len(rows), 16), np.uint8)
    for place in range(16):
        there = lengths > place
        lowest_first[there, place] = records.bytes[begin[there] + lengths[there] - 1 - place]
    negative = (lengths > 0) & (records.bytes[begin] >= 0x80)
    lowest_first[negative] |= np.where(np.arange(16) >= lengths[negative, None], 0xFF, 0).astype(np.uint8)
    found = pa.Array.from_buffers(pa.decimal128(38, type.scale), len(rows), [None, pa.py_buffer(lowest_first)])
    most = Decimal(10**type.precision - 1).scaleb(-type.scale, _EXACT)
    bounds = [pa.scalar(one, found.type) for one in (most.copy_negate(), most)]  # `-most` would round to 28 digits
    fits = pc.and_(pc.greater_equal(found, bounds[0]), pc.less_equal(found, bounds[1])).to_numpy(zero_copy_only=False)
    records.refuse(rows[~fits], f"{path}: a number with more digits than {type.shown} has")
    return found.filter(pa.array(fits)).cast(wanted).take(places(fits))


def places(there: np.ndarray) -> pa.Array:
    """The position of each value among the values that are present; null for absent values."""
    return pa.array(np.cumsum(there) - 1, mask=~there)


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type as which a field type is read."""
    name = field_types.required(text)
    if name.startswith("list<"):
        return pa.large_list(arrow_type(name[len("list<") : -1]))
    if name.startswith("map<"):
        entry = [pa.field(KEY, pa.large_string()), pa.field(VALUE, arrow_type(field_types.map_value(name)))]
        return pa.large_list(pa.struct(entry))
    if name.startswith("struct<"):
        return pa.struct([pa.field(member, arrow_type(kind)) for member, kind in field_types.members(name).items()])
    if name.startswith("decimal"):
        kind = field_types.dtype(name)
        assert isinstance(kind, pl.Decimal)
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW[name]
