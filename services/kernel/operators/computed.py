"""Columns computed from the output rows of an operator, such as a quotient of two sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.expressions.parsing import computing
from holdfast.services.kernel.operators.operator import BatchContext, Operator, Outcome
from holdfast.services.kernel.operators.remembered import Remembered, Remembering, Wanted


class Computed:
    """An operator whose output gets computed columns.

    Args:
        inner: the operator.
        columns: the columns to compute.
        fields: the fields of the output.
    """

    def __init__(self, inner: Operator, columns: Sequence[pl.Expr], fields: Mapping[str, str]) -> None:
        self._inner = inner
        self._add = computing(columns)
        self._names = with_time(schema(fields)).names()

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        outcome = self._inner.on_batch(inputs, context)
        return replace(outcome, rows=self._add(outcome.rows).select(self._names))

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """The state of the operator, with the computed columns in place of their sources."""
        assert isinstance(self._inner, Remembering)
        for table, keys, values in self._inner.remembered(watermark, wanted):
            rows = self._add(keys.hstack(values) if keys.width else values)
            shown = [name for name in self._names if name in rows.columns and name not in keys.columns]
            yield Remembered(table, keys, rows.select(shown))
