"""Encoding of rows and keys as records that begin with the id of their schema.

A key of one column is its value alone; a key of several columns is a record. Source: docs/decisions/0180 and 0206.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import polars as pl

from holdfast.services.kernel.codecs.avro_encoder import encode_avro, encode_avro_values
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.codecs.plain_values import plain_values
from holdfast.services.kernel.codecs.protobuf_encoder import IN_ORDER, Numbers, encode_protobuf
from holdfast.services.kernel.codecs.registered import HEADER

FIRST_MESSAGE = b"\0"
"""The byte after the id of a Protobuf schema that names the first message."""
_encode = msgspec.json.Encoder().encode


def head_of(id: int) -> bytes:
    """The bytes before each value."""
    return b"\0" + id.to_bytes(HEADER - 1, "big")


def registered_values(
    rows: pl.DataFrame, fields: Mapping[str, str], format: str, id: int, numbers: Numbers = IN_ORDER
) -> list[bytes]:
    """A value for each row.

    numbers: the numbers of the Protobuf fields.
    """
    head = head_of(id)
    if format == "protobuf":
        return encode_protobuf(rows, fields, head + FIRST_MESSAGE, numbers)
    return encode_avro(rows, fields, head) if format == "avro" else [head + one for one in encode_json(rows, fields)]


def registered_keys(rows: pl.DataFrame, fields: Mapping[str, str], format: str, id: int) -> list[bytes | None]:
    """A key for each row, as a record of the columns."""
    return list(registered_values(rows.select(list(fields)), fields, format, id))


def registered_key(column: pl.Series, text: str, format: str, id: int) -> list[bytes | None]:
    """A key for each value alone; None for a null. Protobuf has no single values: the key is a message with only this
    field.
    """
    head = head_of(id)
    if format == "protobuf":
        values = encode_protobuf(column.to_frame(), {column.name: text}, head + FIRST_MESSAGE)
        return [None if len(value) == len(head) + 1 else value for value in values]
    if format == "avro":
        return encode_avro_values(column, text, head)
    return [None if value is None else head + _encode(value) for value in plain_values(column)]
