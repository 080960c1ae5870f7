"""filter, select and union: a row in, at most a row out, in the order in which they came.

Source: JOBS "operators".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from services.kernel.expressions import compile_expression, name_of, source_of
from services.kernel.fields import with_time
from services.kernel.operators.operator import TIME, BatchContext, Outcome


class Filter:
    """Keeps the rows for which the expression is true; null counts as false."""

    def __init__(self, expression: str, schema: Mapping[str, pl.DataType]) -> None:
        self._keep = compile_expression(expression, schema)

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        return Outcome(rows.filter(self._keep) if rows.height else rows)


class Select:
    """Computes new rows; the event time stays."""

    def __init__(
        self, items: Sequence[str], schema: Mapping[str, pl.DataType], output: Mapping[str, pl.DataType]
    ) -> None:
        self._columns = [
            compile_expression(source_of(item), schema).cast(output[name_of(item)]).alias(name_of(item))
            for item in items
        ]
        self._empty = with_time(output).to_frame()

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        if not rows.height:
            return Outcome(self._empty)
        time = rows[TIME]
        return Outcome(rows.with_columns(self._columns).select(*self._empty.columns[:-1], time))


class Union:
    """All rows of all inputs, in slot order."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = [*columns, TIME]

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        return Outcome(pl.concat([rows.select(self._columns) for rows in inputs], rechunk=True))
