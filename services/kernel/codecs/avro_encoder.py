"""Encoding of rows as Avro records: all values of a column at once, into one buffer that is then cut into records.

The schema follows from the columns, see sink_schemas.py: every value is a union with null first. Source: Avro
specification 1.12, "Binary Encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context
from typing import Any

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs import pieces
from holdfast.services.kernel.codecs.maps import KEY, VALUE
from holdfast.services.kernel.codecs.pieces import Piece, constant, cut, joined, numbers
from holdfast.services.kernel.codecs.plain_values import within_calendar

_EXACT = Context(prec=field_types.MAX_PRECISION)


def encode_avro(rows: pl.DataFrame, fields: Mapping[str, str], head: bytes = b"") -> list[bytes]:
    """Encodes each row as a record of its fields, in their order.

    head: bytes at the begin of each record.
    """
    if not rows.height:
        return []
    plain = within_calendar(rows.select(list(fields)), field_types.schema(fields))
    parts = [constant(head, rows.height), *(_column(plain[name], text) for name, text in fields.items())]
    return cut(joined(parts))


def encode_avro_values(column: pl.Series, text: str, head: bytes = b"") -> list[bytes | None]:
    """Encodes each value alone, not as a union; None for a null and for a time outside the years 1 to 9999."""
    plain = within_calendar(column.to_frame(), {column.name: field_types.dtype(text)})[column.name]
    there = plain.drop_nulls()
    found: list[bytes | None] = [None] * len(plain)
    if len(there):
        values = cut(joined([constant(head, len(there)), _values(there, text)]))
        for place, value in zip(plain.is_not_null().arg_true().to_list(), values, strict=True):
            found[place] = value
    return found


def _column(values: pl.Series, text: str) -> Piece:
    """Values of a field type, each after the number of its branch."""
    there = values.is_not_null()
    where = there.arg_true().to_numpy()
    branch = constant(b"\0", len(values))
    inner = _values(values.filter(there), text)
    lengths = branch.lengths.copy()
    lengths[where] += inner.lengths

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        buffer[at[where]] = 2  # branch 1
        inner.write(buffer, at[where] + 1)

    return Piece(lengths, write)


def _values(values: pl.Series, text: str) -> Piece:
    """Values without null."""
    name = field_types.required(text)
    if name.startswith("list<"):
        return _lists(values, name[len("list<") : -1])
    if name.startswith("map<"):
        return _maps(values, field_types.map_value(name))
    if name.startswith("struct<"):
        return joined([_column(values.struct.field(one), kind) for one, kind in field_types.members(name).items()])
    if name.startswith("decimal"):
        kind: Any = values.dtype
        return _texts(pl.Series([_unscaled(one, kind.scale) for one in values.to_list()], dtype=pl.Binary))
    if name in ("string", "bytes"):
        return _texts(values)
    if name == "bool":
        return pieces.booleans(values)
    if name == "float":
        return pieces.floats(values)
    return numbers(pieces.signed(values.to_physical().cast(pl.Int64).to_numpy()))


def _unscaled(value: Any, scale: int) -> bytes:
    """The digits of a decimal without its point, in the fewest bytes of two's complement."""
    number = int(value.scaleb(scale, _EXACT))
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def _texts(values: pl.Series) -> Piece:
    """Texts or bytes, each after its length."""
    sizes, content = pieces.texts(values)
    return joined([numbers(pieces.signed(sizes)), content])


def _lists(values: pl.Series, text: str) -> Piece:
    """Lists: the number of items, the items, then 0; an empty list is only the 0."""
    return _blocks(values, lambda items: _column(items, text))


def _maps(values: pl.Series, text: str) -> Piece:
    """Maps: as lists of a key and its value."""
    return _blocks(
        values, lambda some: joined([_texts(some.struct.field(KEY)), _column(some.struct.field(VALUE), text)])
    )


def _blocks(values: pl.Series, write: Callable[[pl.Series], Piece]) -> Piece:
    sizes = values.list.len().to_numpy().astype(np.int64)
    full = np.flatnonzero(sizes)
    items = write(values.filter(pl.Series(sizes > 0)).explode())
    counted = joined([numbers(pieces.signed(sizes[full])), pieces.grouped(items, sizes[full])])
    return joined([pieces.spread(counted, full, len(sizes)), constant(b"\0", len(sizes))])
