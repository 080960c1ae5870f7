"""Rows as values of a state table: tuples of msgpack values, decoded to exactly the same bits.

Source: PROTOCOL 6.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holdfast.services.kernel.codecs.frames import RowCodec
from holdfast.services.kernel.state.table import Value


class StoredRows:
    """An encoder of rows of one schema into state values."""

    def __init__(self, schema: pl.Schema) -> None:
        self._schema = schema
        self._nested = {name: RowCodec(pl.Schema({name: kind})) for name, kind in schema.items() if kind.is_nested()}

    def encode(self, rows: pl.DataFrame) -> list[Value]:
        """Encodes each row as a tuple."""
        return list(zip(*[self._values(rows, name) for name in self._schema], strict=True))

    def decode(self, values: Sequence[Value]) -> pl.DataFrame:
        """The rows again, in order."""
        columns = list(zip(*values, strict=True)) or [()] * len(self._schema)
        return pl.DataFrame([self._series(name, column) for name, column in zip(self._schema, columns, strict=True)])

    def _values(self, rows: pl.DataFrame, name: str) -> list[Value]:
        if name in self._nested:
            return [self._nested[name].encode(rows.select(name).slice(row, 1)) for row in range(rows.height)]
        return rows[name].cast(_storage(self._schema[name])).to_list()

    def _series(self, name: str, values: Sequence[Value]) -> pl.Series:
        if name in self._nested:
            return self._nested[name].decode(*values)[name]
        kind = self._schema[name]
        return pl.Series(name, values, dtype=_storage(kind)).cast(kind)


def _storage(kind: pl.DataType) -> pl.DataType:
    if isinstance(kind, pl.Datetime):
        return pl.Int64()
    if kind == pl.Date:
        return pl.Int32()
    return pl.String() if isinstance(kind, pl.Decimal) else kind
