"""Rows as Avro records: each column of all rows at once, into one buffer that is then cut into records.

The schema is that of the columns, see sink_schemas.py: every value is a union with null first. Source: Avro
specification 1.12, "Binary Encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Context
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.plain_values import within_calendar

_EXACT = Context(prec=field_types.MAX_PRECISION)
Write = Callable[[np.ndarray, np.ndarray], None]
"""Writes values into a buffer, each at its place."""


class _Piece(NamedTuple):
    """Values of one column. lengths: bytes of each."""

    lengths: np.ndarray
    write: Write


def encode_avro(rows: pl.DataFrame, fields: Mapping[str, str], head: bytes = b"") -> list[bytes]:
    """Each row as a record of its fields, in their order. head: begins each record."""
    if not rows.height:
        return []
    plain = within_calendar(rows.select(list(fields)), field_types.schema(fields))
    pieces = [_constant(head, rows.height), *(_column(plain[name], text) for name, text in fields.items())]
    return _cut(_joined(pieces))


def encode_avro_values(column: pl.Series, text: str, head: bytes = b"") -> list[bytes | None]:
    """Each value alone, as its type and no union; None of a null, and of a time that no calendar has."""
    plain = within_calendar(column.to_frame(), {column.name: field_types.dtype(text)})[column.name]
    there = plain.drop_nulls()
    found: list[bytes | None] = [None] * len(plain)
    if len(there):
        values = _cut(_joined([_constant(head, len(there)), _values(there, text)]))
        for place, value in zip(plain.is_not_null().arg_true().to_list(), values, strict=True):
            found[place] = value
    return found


def _cut(whole: _Piece) -> list[bytes]:
    """The bytes of each value."""
    ends = np.cumsum(whole.lengths)
    buffer = np.zeros(int(ends[-1]), np.uint8)
    whole.write(buffer, ends - whole.lengths)
    written, stops = buffer.tobytes(), ends.tolist()
    return [written[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def _column(values: pl.Series, text: str) -> _Piece:
    """Values of a field type, each behind the number of its branch."""
    there = values.is_not_null()
    where = there.arg_true().to_numpy()
    branch = _constant(b"\0", len(values))
    inner = _values(values.filter(there), text)
    lengths = branch.lengths.copy()
    lengths[where] += inner.lengths

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        buffer[at[where]] = 2  # branch 1
        inner.write(buffer, at[where] + 1)

    return _Piece(lengths, write)


def _values(values: pl.Series, text: str) -> _Piece:
    """Values of which none is null."""
    name = field_types.required(text)
    if name.startswith("list<"):
        return _lists(values, name[len("list<") : -1])
    if name.startswith("struct<"):
        return _joined([_column(values.struct.field(one), kind) for one, kind in field_types.members(name).items()])
    if name.startswith("decimal"):
        kind: Any = values.dtype
        return _texts(pl.Series([_unscaled(one, kind.scale) for one in values.to_list()], dtype=pl.Binary))
    if name in ("string", "bytes"):
        return _texts(values.cast(pl.Binary))
    if name == "bool":
        return _fixed(values.to_numpy().astype(np.uint8).reshape(-1, 1))
    if name == "float":
        return _fixed(np.ascontiguousarray(values.to_numpy()).astype("<f8").view(np.uint8).reshape(-1, 8))
    return _numbers(values.to_physical().cast(pl.Int64).to_numpy())


def _unscaled(value: Any, scale: int) -> bytes:
    """The number of a decimal without its point, in the fewest bytes of two's complement."""
    number = int(value.scaleb(scale, _EXACT))
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def _constant(value: bytes, count: int) -> _Piece:
    return _fixed(np.tile(np.frombuffer(value, np.uint8), (count, 1)))


def _fixed(lines: np.ndarray) -> _Piece:
    """A line of bytes for each value."""
    count, width = lines.shape

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        for place in range(width):
            buffer[at + place] = lines[:, place]

    return _Piece(np.full(count, width, np.int64), write)


def _numbers(values: np.ndarray) -> _Piece:
    """Zigzag numbers, seven bits a byte."""
    signed = values.astype(np.int64)
    zigzag = (signed << np.int64(1)).astype(np.uint64) ^ (signed >> np.int64(63)).astype(np.uint64)
    lengths = np.ones(len(zigzag), np.int64)
    for bits in range(7, 64, 7):
        lengths += zigzag >> np.uint64(bits) != 0

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        for place in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero(lengths > place)
            byte = (zigzag[rows] >> np.uint64(7 * place) & np.uint64(0x7F)).astype(np.uint8)
            buffer[at[rows] + place] = byte | np.where(lengths[rows] > place + 1, 0x80, 0).astype(np.uint8)

    return _Piece(lengths, write)


def _texts(values: pl.Series) -> _Piece:
    """Bytes, behind how many they are."""
    arrow = values.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, bounds, content = arrow.buffers()
    offsets = np.frombuffer(bounds, np.int64)[arrow.offset : arrow.offset + len(arrow) + 1]
    sizes = np.diff(offsets)
    count = _numbers(sizes)

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        count.write(buffer, at)
        if total := int(sizes.sum()):
            begin = at + count.lengths - (offsets[:-1] - offsets[0])
            where = np.repeat(begin, sizes) + np.arange(total)
            buffer[where] = np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]]

    return _Piece(count.lengths + sizes, write)


def _lists(values: pl.Series, text: str) -> _Piece:
    """Items behind their number, and 0 behind them; an empty list is the 0 alone."""
    sizes = values.list.len().to_numpy().astype(np.int64)
    full = np.flatnonzero(sizes)
    items = _column(values.filter(pl.Series(sizes > 0)).explode(), text)
    count = _numbers(sizes[full])
    first = np.cumsum(sizes[full]) - sizes[full]
    ends = np.concatenate([[0], np.cumsum(items.lengths)])
    held = ends[first + sizes[full]] - ends[first]
    lengths = np.ones(len(sizes), np.int64)
    lengths[full] += count.lengths + held

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        count.write(buffer, at[full])
        begin = at[full] + count.lengths - ends[first]
        items.write(buffer, np.repeat(begin, sizes[full]) + ends[:-1])

    return _Piece(lengths, write)


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    """Values side by side."""
    lengths = np.sum([one.lengths for one in pieces], axis=0)

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        place = at.copy()
        for one in pieces:
            one.write(buffer, place)
            place += one.lengths

    return _Piece(lengths, write)
