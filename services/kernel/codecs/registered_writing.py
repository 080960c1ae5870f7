"""Rows and keys as records that begin with the id of their schema.

A key of one column is its value alone, one of several is a record of them. Source: docs/decisions/0180 and 0206.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import polars as pl

from holdfast.services.kernel.codecs.avro_writing import encode_avro, encode_avro_values
from holdfast.services.kernel.codecs.encoding import encode_json
from holdfast.services.kernel.codecs.plain_values import plain_values
from holdfast.services.kernel.codecs.protobuf_writing import IN_ORDER, Numbers, encode_protobuf
from holdfast.services.kernel.codecs.registered import HEADER

FIRST_MESSAGE = b"\0"
"""Behind the id of a schema of Protobuf: a record is the first message of it."""
_encode = msgspec.json.Encoder().encode


def head_of(id: int) -> bytes:
    """The bytes before each value."""
    return b"\0" + id.to_bytes(HEADER - 1, "big")


def registered_values(
    rows: pl.DataFrame, fields: Mapping[str, str], format: str, id: int, numbers: Numbers = IN_ORDER
) -> list[bytes]:
    """A value for each row. numbers: of the fields of Protobuf."""
    head = head_of(id)
    if format == "protobuf":
        return encode_protobuf(rows, fields, head + FIRST_MESSAGE, numbers)
    return encode_avro(rows, fields, head) if format == "avro" else [head + one for one in encode_json(rows, fields)]


def registered_keys(rows: pl.DataFrame, fields: Mapping[str, str], format: str, id: int) -> list[bytes | None]:
    """A key for each row, a record of the columns."""
    return list(registered_values(rows.select(list(fields)), fields, format, id))


def registered_key(column: pl.Series, text: str, format: str, id: int) -> list[bytes | None]:
    """A key for each value alone; none of a null. Protobuf has no value alone: it is a message with this one field."""
    head = head_of(id)
    if format == "protobuf":
        values = encode_protobuf(column.to_frame(), {column.name: text}, head + FIRST_MESSAGE)
        return [None if len(value) == len(head) + 1 else value for value in values]
    if format == "avro":
        return encode_avro_values(column, text, head)
    return [None if value is None else head + _encode(value) for value in plain_values(column)]
