"""The groups of a batch: from rows to distinct keys with partial accumulators, and from accumulators to output rows.

Source: PROTOCOL 4 (single-threaded reductions, canonical key order).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.services.kernel.codecs.keys import canonical_floats
from holdfast.services.kernel.expressions.parsing import computing
from holdfast.services.kernel.operators import acero, exact_sums
from holdfast.services.kernel.operators.accumulators import Aggregate, Columns, as_list
from holdfast.services.kernel.operators.exact_sums import Memories

acero.load()

State = tuple[object, ...]
_ONE = "_one"
_NUMBER = "_number"


class Grouping:
    """A reduction of batches by key columns.

    Args:
        key: the key columns; empty: all rows are one group.
        aggregates: the aggregates to compute.
    """

    def __init__(self, key: Sequence[str], aggregates: Sequence[Aggregate]) -> None:
        self.key = list(key)
        self.aggregates = list(aggregates)
        self.width = sum(aggregate.width for aggregate in aggregates)
        self._order, self._sums = _stored_order(aggregates)
        self._ordered = any(aggregate.function in ("first", "last") for aggregate in aggregates)
        self._columns = [aggregate.column for aggregate in aggregates]
        self._computed = [
            aggregate.argument.alias(aggregate.name)
            for aggregate, column in zip(aggregates, self._columns, strict=True)
            if aggregate.argument is not None and column is None
        ]
        self._add = computing(self._computed)
        self._reductions = [reduction for aggregate in aggregates for reduction in aggregate.reductions()]
        self._float_sums = {
            name for aggregate in aggregates for name, _ in aggregate.reductions()[: aggregate.sums_floats]
        }

    def reduce(self, rows: pl.DataFrame, time: str) -> tuple[pl.DataFrame, Columns]:
        """The distinct keys in canonical order, and the column of each accumulator. first and last need rows in the
        order of time.
        """
        if self._ordered and not rows[time].is_sorted():
            rows = rows.sort(time, maintain_order=True)
        keys = [canonical_floats(rows[name]) for name in self.key]
        plain = self.prepared(rows, time)
        prepared, cuts = self._cut(plain)
        reductions = [*self._reductions, *((name, "sum") for cut in cuts.values() for name in cut.names[1:])]
        reduced = self._sorted(self._grouped(keys, prepared, reductions))
        columns = _columns(reduced, [one for one in self._reductions if one[1] != "sum" or one[0] not in cuts])
        accumulators: Columns = []
        by_name = {column.name: column for column in plain}
        for aggregate in self.aggregates:
            if aggregate.gathers:
                accumulators += aggregate.memories([columns[one] for one in aggregate.reductions()], by_name)
                continue
            for reduction in aggregate.reductions():
                cut = cuts.get(reduction[0]) if reduction[1] == "sum" else None
                accumulators += [aggregate.accumulators(columns[reduction])] if cut is None else cut.memories(reduced)
        return pl.DataFrame([pl.Series(name, reduced[name]) for name in self.key]), accumulators

    def _cut(self, prepared: list[pl.Series]) -> tuple[Sequence[pl.Series | _Level], dict[str, _Cut]]:
        """Splits float columns that are summed into levels whose sums are exact."""
        if not self._float_sums:
            return prepared, {}
        cuts: dict[str, _Cut] = {}
        columns: list[pl.Series | _Level] = []
        for column in prepared:
            if column.name not in self._float_sums:
                columns.append(column)
                continue
            cuts[column.name] = cut = _Cut(column)
            columns += cut.columns
        return columns, cuts

    def numbers(self, rows: pl.DataFrame, keys: pl.DataFrame) -> np.ndarray:
        """For each row, the number of its key among the distinct keys."""
        if not self.key:
            return np.zeros(rows.height, dtype=np.int64)
        own = pl.DataFrame([canonical_floats(rows[name]) for name in self.key])
        numbered = keys.with_row_index(_NUMBER)
        found = own.join(numbered, on=self.key, how="left", nulls_equal=True, maintain_order="left")
        return found[_NUMBER].to_numpy().astype(np.int64)

    def prepared(self, rows: pl.DataFrame, time: str) -> list[pl.Series]:
        """The columns to be reduced, aggregate by aggregate."""
        times = rows[time]
        given = self._add(rows) if self._computed else rows
        prepared = []
        for aggregate, column in zip(self.aggregates, self._columns, strict=True):
            value = times if aggregate.argument is None else rows[column] if column else given[aggregate.name]
            prepared += aggregate.prepare(value, times)
        return prepared

    def _grouped(
        self, keys: Sequence[pl.Series], prepared: Sequence[pl.Series | _Level], reductions: Sequence[tuple[str, str]]
    ) -> pa.Table:
        if not keys:
            keys = [pl.Series(_ONE, [0], dtype=pl.Int8).new_from_index(0, len(_arrow(prepared[0])))]
        columns: list[pl.Series | _Level] = [*keys, *prepared]
        summed = {name for name, function in reductions if function == "sum"}
        arrays = [_roomy(_arrow(column)) if column.name in summed else _arrow(column) for column in columns]
        table = pa.Table.from_arrays(arrays, names=[column.name for column in columns])
        wanted: Any = list(dict.fromkeys(reductions))
        return _as_text(table.group_by([key.name for key in keys], use_threads=False).aggregate(wanted))

    def _sorted(self, groups: pa.Table) -> pa.Table:
        """The groups by key, null first. Arrow sorts NaN before null; polars costs more for a small batch."""
        if not self.key:
            return groups
        if any(pa.types.is_floating(groups.schema.field(name).type) for name in self.key):
            return (
                pl.DataFrame(groups).sort(self.key, maintain_order=True).to_arrow(compat_level=pl.CompatLevel.oldest())
            )
        order: Any = [(name, "ascending", "at_start") for name in self.key]
        return groups.take(pc.sort_indices(groups, order))

    def states_of(self, accumulators: Columns) -> list[State]:
        """A tuple for each key."""
        columns = [accumulators[at] for at in self._order]
        return list(zip(*[as_list(one) for one in columns], strict=True))

    def columns_of(self, states: Sequence[State]) -> Columns:
        """A column for each accumulator. States of an earlier release hold an exact sum in one accumulator."""
        if not states:
            return [[] for _ in range(self.width)]
        try:
            stored = list(zip(*states, strict=True))
        except ValueError:
            stored = []
        if len(stored) < self.width:
            stored = list(zip(*map(self._with_rests, states), strict=True))
        columns: Columns = [[]] * self.width
        for at, column in zip(self._order, stored, strict=True):
            columns[at] = list(column)
        for at in self._sums:
            columns[at : at + 2] = exact_sums.floats((columns[at], columns[at + 1]))
        return columns

    def _with_rests(self, state: State) -> State:
        if len(state) == self.width:
            return state
        found, rests = list(state), list[object]()
        for place, at in zip(range(len(state)), self._order, strict=False):
            if at in self._sums:
                found[place], rest = exact_sums.split(state[place])  # type: ignore[arg-type]
                rests.append(rest)
        return (*found, *rests)

    def merge(self, states: Sequence[State | None], new: Columns) -> Columns:
        """Adds the results of a batch to the states of the same keys."""
        if all(state is None for state in states):
            return new
        blank: State = (None,) * self.width
        return self.merge_columns(self.columns_of([blank if one is None else one for one in states]), new)

    def merge_columns(self, old: Columns, new: Columns) -> Columns:
        """Merges two memories of the same keys, the older first; None: it has no value of the key."""
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


class _Level(NamedTuple):
    """A column as Arrow has it."""

    name: str
    values: pa.Array


class _Cut:
    """A column of floats split into levels.

    columns: the level columns; the first has the nulls.
    """

    def __init__(self, column: pl.Series) -> None:
        floats = column if column.dtype == pl.Float64 else column.cast(pl.Float64)
        nulls = floats.is_null().to_numpy() if floats.null_count() else None
        values = floats.to_numpy() if nulls is None else np.where(nulls, 0.0, floats.to_numpy())
        self._levels = exact_sums.levels(values)
        self.names = [f"{column.name}~{at}" if at else column.name for at in range(len(self._levels.columns))]
        self.columns = [
            _Level(name, pa.array(level, mask=None if at else nulls))
            for at, (name, level) in enumerate(zip(self.names, self._levels.columns, strict=True))
        ]

    def memories(self, reduced: pa.Table) -> Memories:
        """The memories of each group; empty for a group with only nulls."""
        sums = [_one_array(reduced[f"{name}_sum"]) for name in self.names]
        unknown = sums[0].is_null().to_numpy(zero_copy_only=False) if sums[0].null_count else None
        first = (sums[0] if unknown is None else sums[0].fill_null(0.0)).to_numpy()
        found = exact_sums.of_groups(self._levels, [first, *(one.to_numpy() for one in sums[1:])])
        return found if unknown is None else exact_sums.without(found, unknown)


def _arrow(column: pl.Series | _Level) -> pa.Array:
    return column.values if isinstance(column, _Level) else column.to_arrow(compat_level=pl.CompatLevel.oldest())


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _roomy(values: pa.Array) -> pa.Array:
    """Decimals with 76 digits: Arrow's sums wrap around beyond the 38 digits of a column."""
    return values.cast(pa.decimal256(76, values.type.scale)) if pa.types.is_decimal128(values.type) else values


def _as_text(table: pa.Table) -> pa.Table:
    """The table with decimals of more than 38 digits as texts, because polars lacks them."""
    for index, field in enumerate(table.schema):
        if pa.types.is_decimal256(field.type):
            table = table.set_column(index, field.name, table[index].cast(pa.string()))
    return table


def _columns(reduced: pa.Table, reductions: Iterable[tuple[str, str]]) -> dict[tuple[str, str], pl.Series]:
    """The reductions in the table."""
    names = {reduction: f"{reduction[0]}_{reduction[1]}" for reduction in reductions}
    held = set(reduced.column_names)
    return {reduction: pl.Series(reduced[name]) for reduction, name in names.items() if name in held}


def _stored_order(aggregates: Sequence[Aggregate]) -> tuple[list[int], set[int]]:
    """The order of accumulators in a state, with the rests of exact sums last; and the values of exact sums."""
    places, rests = list[int](), list[int]()
    for aggregate in aggregates:
        first = len(places) + len(rests)
        own = list(range(first, first + aggregate.width))
        if aggregate.sums_floats:
            rests += own[1 : 2 * aggregate.sums_floats : 2]
            del own[1 : 2 * aggregate.sums_floats : 2]
        places += own
    return [*places, *rests], {rest - 1 for rest in rests}
