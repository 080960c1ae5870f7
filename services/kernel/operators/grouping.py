"""Groups of a batch: rows to distinct keys with partial accumulators, and accumulators to rows again.

Source: PROTOCOL 4 (single-threaded reductions, canonical key order).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import polars as pl
import pyarrow as pa

from services.kernel import keys as canonical_keys
from services.kernel.operators.accumulators import Aggregate, Columns

State = tuple[object, ...]
_ONE = "_one"


class Grouping:
    """Reduces batches by key columns.

    Args:
        key: columns of the key; none makes one group of everything.
    """

    def __init__(self, key: Sequence[str], aggregates: Sequence[Aggregate]) -> None:
        self.key = list(key)
        self.aggregates = list(aggregates)
        self.width = sum(aggregate.width for aggregate in aggregates)
        self._ordered = any(aggregate.function in ("first", "last") for aggregate in aggregates)

    def reduce(self, rows: pl.DataFrame, time: str) -> tuple[pl.DataFrame, Columns]:
        """Distinct keys in canonical order, and for each accumulator its column."""
        if self._ordered:
            rows = rows.sort(time, maintain_order=True)
        prepared = [series for aggregate in self.aggregates for series in aggregate.prepare(rows)]
        keys = [canonical_keys.canonical_floats(rows[name]) for name in self.key]
        frame = pl.DataFrame([*keys, *prepared]) if keys else pl.DataFrame(prepared).with_columns(pl.lit(0).alias(_ONE))
        reductions = [reduction for aggregate in self.aggregates for reduction in aggregate.reductions()]
        wanted: Any = list(dict.fromkeys(reductions))
        table: pa.Table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        grouped = table.group_by(self.key or [_ONE], use_threads=False).aggregate(wanted)
        distinct = pl.DataFrame(grouped)
        if self.key:
            distinct = distinct.sort(self.key, maintain_order=True)
        columns = {(column, function): distinct[f"{column}_{function}"] for column, function in wanted}
        accumulators = [
            aggregate.accumulators(columns[reduction])
            for aggregate in self.aggregates
            for reduction in aggregate.reductions()
        ]
        return distinct.select(self.key), accumulators

    def merge(self, states: Sequence[State | None], new: Columns) -> Columns:
        """The states of the same keys, and what a batch adds to them."""
        known = [state for state in states if state is not None]
        if not known:
            return new
        width = len(new)
        blank: State = tuple(repeat(None, width))
        old = [list(column) for column in zip(*[blank if s is None else s for s in states], strict=True)]
        merged: Columns = []
        start = 0
        for aggregate in self.aggregates:
            stop = start + aggregate.width
            merged += aggregate.merge(old[start:stop], new[start:stop])
            start = stop
        return merged

    def values(self, accumulators: Columns) -> list[pl.Series]:
        """The output columns of all aggregates."""
        series = []
        start = 0
        for aggregate in self.aggregates:
            stop = start + aggregate.width
            series.append(aggregate.value(accumulators[start:stop]))
            start = stop
        return series


def states_of(accumulators: Columns) -> list[State]:
    """A tuple for each key."""
    return list(zip(*accumulators, strict=True))


def columns_of(states: Sequence[State], width: int) -> Columns:
    """A column for each accumulator."""
    if not states:
        return [[] for _ in range(width)]
    return [list(column) for column in zip(*states, strict=True)]
