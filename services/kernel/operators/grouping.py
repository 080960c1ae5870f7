"""Groups of a batch: rows to distinct keys with partial accumulators, and accumulators to rows again.

Source: PROTOCOL 4 (single-threaded reductions, canonical key order).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from services.kernel.keys import canonical_floats
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
        self._columns = [aggregate.column for aggregate in aggregates]
        self._computed = [
            aggregate.argument.alias(aggregate.name)
            for aggregate, column in zip(aggregates, self._columns, strict=True)
            if aggregate.argument is not None and column is None
        ]
        self._reductions = [reduction for aggregate in aggregates for reduction in aggregate.reductions()]

    def reduce(self, rows: pl.DataFrame, time: str) -> tuple[pl.DataFrame, Columns]:
        """Distinct keys in canonical order, and for each accumulator its column."""
        if self._ordered and not rows[time].is_sorted():
            rows = rows.sort(time, maintain_order=True)
        reduced = self._sorted(
            self._grouped([canonical_floats(rows[name]) for name in self.key], self._prepared(rows, time))
        )
        columns = {
            reduction: pl.Series(reduced[f"{reduction[0]}_{reduction[1]}"])
            for reduction in dict.fromkeys(self._reductions)
        }
        reductions = iter(self._reductions)
        accumulators = [
            aggregate.accumulators(columns[next(reductions)])
            for aggregate in self.aggregates
            for _ in range(aggregate.width)
        ]
        return pl.DataFrame([pl.Series(name, reduced[name]) for name in self.key]), accumulators

    def _prepared(self, rows: pl.DataFrame, time: str) -> list[pl.Series]:
        times = rows[time]
        computed = rows.select(self._computed) if self._computed else rows
        prepared = []
        for aggregate, column in zip(self.aggregates, self._columns, strict=True):
            if aggregate.argument is None:
                value = times
            else:
                value = computed[aggregate.name] if column is None else rows[column]
            prepared += aggregate.prepare(value, times)
        return prepared

    def _grouped(self, keys: Sequence[pl.Series], prepared: Sequence[pl.Series]) -> pa.Table:
        if not keys:
            keys = [pl.Series(_ONE, [0], dtype=pl.Int8).new_from_index(0, len(prepared[0]))]
        columns = [*keys, *prepared]
        arrays = [column.to_arrow(compat_level=pl.CompatLevel.oldest()) for column in columns]
        table = pa.Table.from_arrays(arrays, names=[column.name for column in columns])
        wanted: Any = list(dict.fromkeys(self._reductions))
        return table.group_by([key.name for key in keys], use_threads=False).aggregate(wanted)

    def _sorted(self, groups: pa.Table) -> pa.Table:
        """By key, null first. Arrow sorts NaN before null, polars costs more for a small batch."""
        if not self.key:
            return groups
        if any(pa.types.is_floating(groups.schema.field(name).type) for name in self.key):
            return (
                pl.DataFrame(groups).sort(self.key, maintain_order=True).to_arrow(compat_level=pl.CompatLevel.oldest())
            )
        order: Any = [(name, "ascending", "at_start") for name in self.key]
        return groups.take(pc.sort_indices(groups, order))

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
