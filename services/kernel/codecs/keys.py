"""The canonical encoding of keys, for state tables and for the routing of rows to tasks.

Source: PROTOCOL 1 (xxh3 of a canonical encoding: -0.0 = 0.0, one NaN, null). Work is per distinct key of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow.compute as pc
import xxhash

_encode = msgspec.msgpack.Encoder(decimal_format="string").encode
_decode = msgspec.msgpack.Decoder().decode

FEW_ROWS = 64
"""Up to this number of rows, encoding every key takes a fraction of the time of finding the distinct ones."""


def canonical_floats(column: pl.Series) -> pl.Series:
    """The column with only one zero and one NaN; columns of other types are unchanged."""
    if not column.dtype.is_float():
        return column
    value = pl.col(column.name).fill_nan(float("nan"))
    # polars takes x + 0.0 for x, which would keep -0.0
    return column.to_frame().select(pl.when(value == 0.0).then(0.0).otherwise(value).alias(column.name)).to_series()


def canonical(column: pl.Series) -> pl.Series:
    """The column as msgpack can encode it: one zero, one NaN; times, dates and decimals as numbers or texts."""
    if column.dtype.is_float():
        return canonical_floats(column)
    if column.dtype == pl.Date or isinstance(column.dtype, pl.Datetime):
        return column.to_physical()
    if isinstance(column.dtype, pl.Decimal):
        return column.cast(pl.String)
    return column


def encode(rows: pl.DataFrame, columns: Sequence[str]) -> list[bytes]:
    """The encoded key of each row. Rows should be distinct in these columns, only for speed."""
    if not columns:
        return [_encode(())] * rows.height
    values = [canonical(rows[name]).to_list() for name in columns]
    return [_encode(key) for key in zip(*values, strict=True)]


def partitions(rows: pl.DataFrame, columns: Sequence[str], count: int) -> np.ndarray:
    """The partition, 0 to count - 1, of each row."""
    if rows.height <= FEW_ROWS:
        return _hashed(encode(rows, columns), count)
    first, group = groups(rows, columns)
    by_group: np.ndarray = _hashed(encode(rows[first], columns), count)
    return by_group.take(group)


def _hashed(encoded: Sequence[bytes], count: int) -> np.ndarray:
    return np.asarray([xxhash.xxh3_64_intdigest(key) % count for key in encoded], dtype=np.int64)


def groups(rows: pl.DataFrame, columns: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The index of one row of each distinct key, and for each row the number of its key. Equal keys may count as
    distinct.
    """
    codes = np.zeros(rows.height, dtype=np.int64)
    for name in columns:
        arrow = rows[name].to_arrow(compat_level=pl.CompatLevel.oldest())
        coded: Any = pc.dictionary_encode(arrow, null_encoding="encode")
        codes = codes * len(coded.dictionary) + coded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(codes, return_inverse=True)[1]
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    return first, group


def decode(encoded: Sequence[bytes], columns: Sequence[str], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The key columns of encoded keys."""
    if not encoded:
        return pl.DataFrame(schema={name: schema[name] for name in columns})
    values = zip(*[_decode(key) for key in encoded], strict=True)
    series = [_restored(name, list(column), schema[name]) for name, column in zip(columns, values, strict=True)]
    return pl.DataFrame(series)


def _restored(name: str, values: list[object], kind: pl.DataType) -> pl.Series:
    if isinstance(kind, pl.Datetime):
        return pl.Series(name, values, dtype=pl.Int64).cast(kind)
    if kind == pl.Date:
        return pl.Series(name, values, dtype=pl.Int32).cast(kind)
    if isinstance(kind, pl.Decimal):
        return pl.Series(name, values, dtype=pl.String).cast(kind)
    return pl.Series(name, values, dtype=kind)
