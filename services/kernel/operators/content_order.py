"""An order of rows that depends only on the rows: by event time, then by content."""

from __future__ import annotations

import polars as pl

from holdfast.services.kernel.codecs.frames import RowCodec
from holdfast.services.kernel.operators.operator import TIME


class ContentOrder:
    """The order of rows by event time, then by content, to the last bit."""

    def __init__(self, columns: pl.Schema) -> None:
        self._columns = columns
        self._codecs = {name: RowCodec(pl.Schema({name: kind})) for name, kind in columns.items() if kind.is_nested()}

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        if rows.height < 2:
            return rows
        keys = [rows[TIME], *(self._comparable(rows[name]) for name in self._columns if name != TIME)]
        order = pl.DataFrame([key.alias(str(at)) for at, key in enumerate(keys)])
        return rows[order.select(pl.arg_sort_by(order.columns, nulls_last=False)).to_series()]

    def _comparable(self, column: pl.Series) -> pl.Series:
        """The column in a form that is equal only for equal bits: polars treats -0.0 as 0.0, and does not sort
        lists.
        """
        if column.dtype.is_float():
            return column.reinterpret(signed=True)  # any order that distinguishes bits is sufficient
        if (codec := self._codecs.get(column.name)) is not None:
            each = (column.slice(at, 1).to_frame() for at in range(len(column)))
            return pl.Series(column.name, [codec.encode(one) for one in each], dtype=pl.Binary)
        return column
