"""Encoding of rows as Protobuf messages: each column of all rows at once, into one buffer that is then cut into
messages.

Null is not written; all other values are, including defaults, because the fields of the message have presence. Fields
are in the order of their numbers, as in the library. protobuf_messages.py makes the message. Source: protobuf.dev,
"Encoding".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs import pieces
from holdfast.services.kernel.codecs.maps import KEY, VALUE
from holdfast.services.kernel.codecs.pieces import Piece, constant, cut, joined, numbers, spread
from holdfast.services.kernel.codecs.plain_values import within_calendar

Numbers = Mapping[str, int]
"""The number of a field by its path, such as o.a for the field a of the struct o, or of the structs in the list o."""
IN_ORDER: Numbers = MappingProxyType({})
ENTRY_KEY = "key"
ITEM = "value"
"""The field of the message that wraps an item which may be null or is a list."""
_VARINT, _EIGHT_BYTES, _DELIMITED = 0, 1, 2
_SECOND = 1_000_000


def encode_protobuf(
    rows: pl.DataFrame, fields: Mapping[str, str], head: bytes = b"", given: Numbers = IN_ORDER
) -> list[bytes]:
    """Encodes each row as a message.

    head: bytes at the begin of each record.
    given: the numbers of the fields; without them, fields are numbered in order.
    """
    if not rows.height:
        return []
    plain = within_calendar(rows.select(list(fields)), field_types.schema(fields))
    columns = {name: plain[name] for name in fields}
    return cut(joined([constant(head, rows.height), _message(columns, fields, "", given, rows.height)]))


def numbered(fields: Mapping[str, str], path: str, given: Numbers) -> dict[str, int]:
    """The number of each field of the message at a path."""
    return {name: given.get(f"{path}{name}", place) for place, name in enumerate(fields, 1)}


def in_message(text: str) -> bool:
    """True if each list item, or value of a map, is wrapped in a message of one field: a repeated field cannot hold
    null, a list or a map.
    """
    return field_types.nullable(text) or field_types.required(text).startswith(("list<", "map<"))


def entry_fields(text: str) -> dict[str, str]:
    """The fields of the message of a map's entry, by the type of the map."""
    return {ENTRY_KEY: "string", ITEM: field_types.map_value(text)}


def _message(
    columns: Mapping[str, pl.Series], fields: Mapping[str, str], path: str, given: Numbers, rows: int
) -> Piece:
    """The columns as messages.

    path: the path of the message, with a dot at the end; empty for the row's message.
    """
    number = numbered(fields, path, given)
    written = [
        _field(columns[name], fields[name], number[name], f"{path}{name}", given)
        for name in sorted(fields, key=lambda name: number[name])
    ]
    return joined(written) if written else Piece(np.zeros(rows, np.int64), lambda buffer, at: None)


def _field(values: pl.Series, text: str, number: int, path: str, given: Numbers) -> Piece:
    name = field_types.required(text)
    if name.startswith("list<"):
        return _repeated(values, name[len("list<") : -1], number, path, given)
    if name.startswith("map<"):
        return _map(values, name, number, path, given)
    there = values.is_not_null()
    value = _value(values.filter(there), name, path, given)
    return spread(_tagged(value, number, _kind(name)), there.arg_true().to_numpy(), len(values))


def _tagged(values: Piece, number: int, kind: int) -> Piece:
    tag, left = bytearray(), number << 3 | kind
    while left >= 0x80:
        tag.append(left & 0x7F | 0x80)
        left >>= 7
    return joined([constant(bytes([*tag, left]), len(values.lengths)), values])


def _kind(name: str) -> int:
    return {"int": _VARINT, "bool": _VARINT, "float": _EIGHT_BYTES}.get(name, _DELIMITED)


def _value(values: pl.Series, name: str, path: str, given: Numbers) -> Piece:
    """Values without null, with their length if the kind has one."""
    if name.startswith("struct<"):
        fields = field_types.members(name)
        columns = {one: values.struct.field(one) for one in fields}
        return _delimited(_message(columns, fields, f"{path}.", given, len(values)))
    if name == "timestamp":
        return _delimited(_timestamps(values.to_physical().to_numpy()))
    if name == "bool":
        return pieces.booleans(values)
    if name == "float":
        return pieces.floats(values)
    if name == "int":
        return numbers(values.cast(pl.Int64).to_numpy())
    if name == "date":
        values = values.dt.strftime("%Y-%m-%d")
    elif name.startswith("decimal"):
        values = values.cast(pl.String)
    sizes, content = pieces.texts(values)
    return joined([numbers(sizes), content])


def _delimited(values: Piece) -> Piece:
    return joined([numbers(values.lengths), values])


def _timestamps(us: np.ndarray) -> Piece:
    """google.protobuf.Timestamp messages: field 1 is seconds, rounded down, field 2 nanoseconds; a zero is not
    written.
    """
    seconds = us // _SECOND
    nanos = (us - seconds * _SECOND) * 1_000
    parts = []
    for number, values in ((1, seconds), (2, nanos)):
        where = np.flatnonzero(values)
        parts.append(spread(_tagged(numbers(values[where]), number, _VARINT), where, len(us)))
    return joined(parts)


def _repeated(values: pl.Series, text: str, number: int, path: str, given: Numbers) -> Piece:
    """Lists. A null or empty list writes nothing. Numbers follow one tag (packed)."""
    if in_message(text):
        text, values = f"struct<{ITEM}: {text}>", _wrapped(values)
    name = field_types.required(text)
    values = values.list.drop_nulls()
    sizes = values.list.len().fill_null(0).to_numpy().astype(np.int64)
    full = np.flatnonzero(sizes)
    items = _value(values.filter(pl.Series(sizes > 0)).explode(), name, path, given)
    if _kind(name) == _DELIMITED:
        lists = pieces.grouped(_tagged(items, number, _DELIMITED), sizes[full])
    else:
        lists = _tagged(_delimited(pieces.grouped(items, sizes[full])), number, _DELIMITED)
    return spread(lists, full, len(sizes))


def _map(values: pl.Series, text: str, number: int, path: str, given: Numbers) -> Piece:
    """Maps: a message for each entry. A null or empty map writes nothing."""
    sizes = values.list.len().fill_null(0).to_numpy().astype(np.int64)
    full = np.flatnonzero(sizes)
    some = values.filter(pl.Series(sizes > 0)).explode()
    keys, items = some.struct.field(KEY), some.struct.field(VALUE)
    fields = entry_fields(text)
    if in_message(fields[ITEM]):
        fields[ITEM], items = f"struct<{ITEM}: {fields[ITEM]}>", items.to_frame(ITEM).to_struct(ITEM)
    parts = [_field(keys, "string", 1, "", given), _field(items, fields[ITEM], 2, f"{path}.{ITEM}", given)]
    entries = _delimited(joined(parts))
    return spread(pieces.grouped(_tagged(entries, number, _DELIMITED), sizes[full]), full, len(sizes))


def _wrapped(values: pl.Series) -> pl.Series:
    """Each item as a struct of one field."""
    frame = values.to_frame("v")
    return frame.select(pl.col("v").list.eval(pl.struct(pl.element().alias(ITEM)))).to_series()
