"""Rows as a sink's records: a JSON object each, and the key of a row as a JSON array.

Source: JOBS "A sink record is the row as a JSON object". Timestamps are ISO 8601 in UTC with Z, with six digits of a
second's fraction where there is one; decimals are strings, bytes base64, NaN and infinity null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec
import polars as pl
from polars.datatypes import DataTypeClass

from services.kernel import fields as field_types
from services.kernel.keys import canonical_floats

_WHOLE = "%Y-%m-%dT%H:%M:%SZ"
_FRACTION = "%Y-%m-%dT%H:%M:%S%.6fZ"
_SECOND_US = 1_000_000
Kind = pl.DataType | DataTypeClass
_encode = msgspec.json.Encoder().encode


def encode_json(rows: pl.DataFrame, fields: Mapping[str, str]) -> list[bytes]:
    """Each row as a JSON object of its fields, in their order, without the event time."""
    if not rows.height:
        return []
    texts = rows.select(_as_json(pl.col(name), field_types.dtype(kind)).alias(name) for name, kind in fields.items())
    return texts.write_ndjson().encode().splitlines()


def keys(rows: pl.DataFrame, row_key: Sequence[str]) -> list[bytes | None]:
    """Each row's key columns as a JSON array; None where rows have no key."""
    if not row_key:
        return [None] * rows.height
    texts = rows.select(_as_json(pl.col(name), rows.schema[name]).alias(name) for name in row_key)
    return [_encode(key) for key in zip(*[_key_values(column) for column in texts], strict=True)]


def _key_values(column: pl.Series) -> list[Any]:
    """JSON has no NaN and no infinity, but they are keys of their own: they become text."""
    values = canonical_floats(column).to_list()
    if column.dtype.is_float() and not column.is_finite().all():
        return [value if value is None or isfinite(value) else str(value) for value in values]
    return values


def _as_json(value: pl.Expr, kind: Kind) -> pl.Expr:
    """What the JSON writer of polars would write in another form is brought into ours."""
    if isinstance(kind, pl.Datetime):
        whole = value.to_physical() % _SECOND_US == 0
        return pl.when(whole).then(value.dt.strftime(_WHOLE)).otherwise(value.dt.strftime(_FRACTION))
    if kind == pl.Date or isinstance(kind, pl.Decimal):
        return value.cast(pl.String)
    if kind == pl.Binary:
        return value.bin.encode("base64")
    if isinstance(kind, pl.List) and _is_changed(kind):
        return value.list.eval(_as_json(pl.element(), kind.inner))
    if isinstance(kind, pl.Struct) and _is_changed(kind):
        members = [_as_json(value.struct.field(f.name), f.dtype).alias(f.name) for f in kind.fields]
        return pl.when(value.is_not_null()).then(pl.struct(members))
    return value


def _is_changed(kind: Kind) -> bool:
    """Whether anything inside has a form of ours."""
    if isinstance(kind, pl.List):
        return _is_changed(kind.inner)
    if isinstance(kind, pl.Struct):
        return any(_is_changed(f.dtype) for f in kind.fields)
    return isinstance(kind, (pl.Datetime, pl.Decimal)) or kind in (pl.Date, pl.Binary)
