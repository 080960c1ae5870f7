"""The accumulators of an aggregate over its rows so far, and the merge of two of them.

Each aggregate has a few accumulators, which are plain values. Arrow reduces a batch to partial accumulators in a single
thread, and they are merged with the state column by column. Sums of floats are exact, so they do not depend on order
and batches.
Source: JOBS "Aggregates", PROTOCOL 4, MECHANISMS C10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs.keys import canonical_floats
from holdfast.services.kernel.operators import collected, distinct, exact_sums, picks, quantiles, spread
from holdfast.services.kernel.operators.collected import COLLECTING
from holdfast.services.kernel.operators.picks import PICKS
from holdfast.services.kernel.operators.spread import VARIANCES

Column = list[Any] | np.ndarray
"""A column of values; arrays for exact sums, see exact_sums.py."""
Columns = list[Column]


def as_list(column: Column) -> list[Any]:
    """The values of the column as Python values."""
    return column.tolist() if isinstance(column, np.ndarray) else column


_INT_LIMIT = 2**63
_DECIMAL_MOST = 10**38 - 1
_EXACT = Context(prec=80)
"""A context for all digits: Python's default context rounds to 28."""


def _added(old: Column, new: Column) -> Column:
    return [b if a is None else a if b is None else a + b for a, b in zip(old, new, strict=True)]


def _least(old: Column, new: Column) -> Column:
    return [b if a is None else a if b is None else min(a, b) for a, b in zip(old, new, strict=True)]


def _most(old: Column, new: Column) -> Column:
    return [b if a is None else a if b is None else max(a, b) for a, b in zip(old, new, strict=True)]


def _joined(merge: Callable[[Any, Any], Any]) -> Callable[[Column, Column], Column]:
    return lambda old, new: [b if a is None else a if b is None else merge(a, b) for a, b in zip(old, new, strict=True)]


def _each(merge: Callable[[Column, Column], Column]) -> Callable[[Columns, Columns], Columns]:
    return lambda old, new: [merge(a, b) for a, b in zip(old, new, strict=True)]


def _earlier(old: Columns, new: Columns) -> Columns:
    """The earlier of two (time, value) pairs; for equal times, the first that arrived."""
    return _chosen(old, new, lambda a, b: b is None or (a is not None and a <= b))


def _later(old: Columns, new: Columns) -> Columns:
    return _chosen(old, new, lambda a, b: b is None or (a is not None and a > b))


def _chosen(old: Columns, new: Columns, keeps: Callable[[Any, Any], bool]) -> Columns:
    kept = [keeps(a, b) for a, b in zip(old[0], new[0], strict=True)]
    return [[a if keep else b for keep, a, b in zip(kept, x, y, strict=True)] for x, y in zip(old, new, strict=True)]


@dataclass(frozen=True, slots=True)
class Function:
    """The computation of an aggregate.

    reduce: Arrow functions over the value (V) or its time (T), one for each accumulator.
    """

    reduce: tuple[tuple[str, str], ...]
    merge: Callable[[Columns, Columns], Columns]


FUNCTIONS = {
    "count": Function((("V", "count"),), _each(_added)),
    "sum": Function((("V", "sum"),), _each(_added)),
    "mean": Function((("V", "sum"), ("V", "count")), _each(_added)),
    "min": Function((("V", "min"),), _each(_least)),
    "max": Function((("V", "max"),), _each(_most)),
    "first": Function((("T", "first"), ("V", "first")), _earlier),
    "last": Function((("T", "last"), ("V", "last")), _later),
    "count_distinct": Function((("V", "distinct"),), _each(_joined(distinct.merged))),
    "quantile": Function((("V", "list"),), _each(_joined(quantiles.merged))),
    **{name: Function((("V", "sum"), ("H", "sum"), ("L", "sum"), ("V", "count")), _each(_added)) for name in VARIANCES},
    "max_by": Function((("R", "max"),), lambda old, new: picks.merged(True, old, new)),
    "min_by": Function((("R", "max"),), lambda old, new: picks.merged(False, old, new)),
    "collect_list": Function((("V", "list"), ("T", "list")), _each(_joined(collected.merged_lists))),
    "string_agg": Function((("V", "list"), ("T", "list")), _each(_joined(collected.merged_lists))),
    "collect_set": Function((("V", "list"),), _each(_joined(collected.merged_sets))),
}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of an operator.

    argument: the aggregated expression; None for count().
    kind: the type of the argument; for max_by and min_by, whose argument is a struct of `by` and `value`, that of the
    value.
    result: the type of the output column.
    share: the share of a quantile, 0.0 to 1.0.
    between: the text between two texts of string_agg.
    """

    name: str
    function: str
    argument: pl.Expr | None
    kind: pl.DataType
    result: pl.DataType
    share: float = 0.0
    between: str = ""
    by_kind: pl.DataType | None = None

    @property
    def inputs(self) -> int:
        """The number of prepared columns."""
        return 2 if self.function in ("first", "last") else 1

    @property
    def width(self) -> int:
        """The number of accumulators. An exact sum has two: its value, and its rest."""
        if self.function in PICKS:
            return 2
        return 1 if self.function in COLLECTING else len(FUNCTIONS[self.function].reduce) + self.sums_floats

    def reductions(self) -> list[tuple[str, str]]:
        """The pair (prepared column, Arrow function) of each accumulator, and of an exact sum."""
        return [(f"_{part}_{self.name}", function) for part, function in FUNCTIONS[self.function].reduce]

    @property
    def column(self) -> str | None:
        """The column that is the argument; None if the argument has to be computed."""
        return (
            self.argument.meta.output_name() if self.argument is not None and self.argument.meta.is_column() else None
        )

    def prepare(self, value: pl.Series, time: pl.Series) -> list[pl.Series]:
        """The columns to be reduced: the value in a form that Arrow adds exactly, and its time if the aggregate uses
        it.
        """
        if self.function in PICKS:
            return self._ranked(value.struct.field("by"), value.struct.field("value"))
        value = self._exact(value).alias(f"_V_{self.name}")
        if self.function in VARIANCES:
            return [value, *map(pl.Series, (f"_H_{self.name}", f"_L_{self.name}"), spread.squares(value))]
        if self.function in ("collect_list", "string_agg"):
            return [value, time.alias(f"_T_{self.name}")]
        if self.function not in ("first", "last"):
            return [value]
        known = time.set(value.is_null(), None) if value.null_count() else time
        return [value, known.alias(f"_T_{self.name}")]

    def _ranked(self, by: pl.Series, value: pl.Series) -> list[pl.Series]:
        """The rank of each row in the order of the deciding column, and both columns, for `memories`."""
        both = [canonical_floats(one).fill_nan(None) if one.dtype.is_float() else one for one in (by, value)]
        places = picks.ranked(both[0], both[1], self.function == "max_by")
        named = zip((places, *both), (f"_R_{self.name}", f"_B_{self.name}", f"_V_{self.name}"), strict=True)
        return [column.alias(name) for column, name in named]

    @property
    def gathers(self) -> bool:
        """True if `memories` makes its accumulators from all its reductions at once."""
        return self.function in PICKS or self.function in COLLECTING

    def memories(self, reduced: Sequence[pl.Series], prepared: Mapping[str, pl.Series]) -> Columns:
        """The accumulators, made from Arrow's results of the reductions.

        prepared: the prepared columns of the batch, by name.
        """
        if self.function in ("collect_list", "string_agg"):
            return [collected.lists(*reduced)]
        if self.function == "collect_set":
            return [collected.sets(reduced[0])]
        places, by, value = (prepared[f"_{part}_{self.name}"] for part in "RBV")
        assert self.by_kind is not None
        return [
            _plain_values(picks.taken(places, reduced[0], by), self.by_kind),
            _plain_values(picks.taken(places, reduced[0], value), self.kind),
        ]

    def accumulators(self, reduced: pl.Series) -> Column:
        """The results of Arrow as plain values; decimals as scaled integers."""
        if self.function == "count_distinct":
            return distinct.memories(reduced)
        if self.function == "quantile":
            return quantiles.memories(reduced)
        values = reduced.to_list()
        if isinstance(reduced.dtype, pl.Decimal) or (reduced.dtype == pl.String and self.kind != pl.String):
            return [None if value is None else int(Decimal(value).scaleb(self._scale, _EXACT)) for value in values]
        return values

    @property
    def sums_floats(self) -> int:
        """The number of pairs of its accumulators, from the first on, that are exact sums; see exact_sums.py."""
        if self.function in VARIANCES:
            return 3
        return int(self.function in ("sum", "mean") and self.kind.is_float())

    def merge(self, old: Columns, new: Columns) -> Columns:
        if exact := 2 * self.sums_floats:
            pairs = range(0, exact, 2)
            sums = [exact_sums.added((old[at], old[at + 1]), (new[at], new[at + 1])) for at in pairs]
            return [*(part for pair in sums for part in pair), *map(_added, old[exact:], new[exact:])]
        return FUNCTIONS[self.function].merge(old, new)

    def value(self, accumulators: Columns) -> pl.Series:
        """The output column. Sums beyond 64 bits, or beyond the digits of a decimal, are null."""
        if self.function in VARIANCES:
            pairs = [(accumulators[at], accumulators[at + 1]) for at in (0, 2, 4)]
            return pl.Series(self.name, spread.spreads(self.function, pairs, accumulators[6]), dtype=pl.Float64)
        if self.sums_floats:
            sums = exact_sums.values((accumulators[0], accumulators[1])).alias(self.name)
            return sums if self.function == "sum" else _quotients(sums, accumulators[2])
        values = self._plain(accumulators)
        if isinstance(self.result, pl.List):
            inner = _physical(self.kind)
            return pl.Series(self.name, values, dtype=pl.List(inner)).cast(self.result)
        if isinstance(self.result, pl.Datetime) or self.result == pl.Date:
            physical = pl.Int64 if isinstance(self.result, pl.Datetime) else pl.Int32
            return pl.Series(self.name, values, dtype=physical).cast(self.result)
        if isinstance(self.result, pl.Decimal):
            fit = _within(values, -_DECIMAL_MOST, _DECIMAL_MOST)
            scaled = [None if v is None else Decimal(v).scaleb(-self._scale, _EXACT) for v in fit]
            return pl.Series(self.name, scaled, dtype=self.result)
        if self.function == "sum" and self.result == pl.Int64:
            values = _within(values, -_INT_LIMIT, _INT_LIMIT - 1)
        return pl.Series(self.name, values, dtype=self.result)

    def _plain(self, accumulators: Columns) -> Column:
        if self.function in ("collect_list", "string_agg"):
            found = [None if memory is None else [value for _, value in memory] for memory in accumulators[0]]
            return found if self.function == "collect_list" else [one and self.between.join(one) for one in found]
        if self.function == "collect_set":
            return [None if memory is None else list(memory) for memory in accumulators[0]]
        if self.function == "mean":
            return self._means(*accumulators)
        if self.function == "count_distinct":
            return [distinct.count(memory) for memory in accumulators[0]]
        if self.function == "quantile":
            return [quantiles.quantile(memory, self.share) for memory in accumulators[0]]
        return accumulators[-1]

    @property
    def _scale(self) -> int:
        return self.kind.scale if isinstance(self.kind, pl.Decimal) else 0

    def _means(self, totals: Column, counts: Column) -> Column:
        """The means; a quotient of integers is rounded once."""
        means = [total / count if count else None for total, count in zip(totals, counts, strict=True)]
        unit = 10**self._scale
        return [None if mean is None else mean / unit for mean in means] if self._scale else means

    def _exact(self, column: pl.Series) -> pl.Series:
        if self.sums_floats and self.function not in VARIANCES:
            return _numbers(column)
        if column.dtype.is_float():  # NaN is no number, in no function
            column = canonical_floats(column).fill_nan(None)
        if self.function == "count_distinct":
            return distinct.prepared(column)
        if self.function == "quantile":
            return quantiles.prepared(column)
        if self.function in VARIANCES:
            return column.cast(pl.Float64)
        if isinstance(self.kind, pl.Datetime) or self.kind == pl.Date:
            return column.cast(pl.Int64 if isinstance(self.kind, pl.Datetime) else pl.Int32)
        if self.function in ("first", "last") and isinstance(self.kind, pl.Decimal):
            return column.cast(pl.String)
        if column.dtype.is_integer() and column.dtype != pl.Int64:
            column = column.cast(pl.Int64)
        if self.function in ("sum", "mean") and column.dtype == pl.Int64 and _may_overflow(column):
            return column.cast(pl.Decimal(38, 0))
        return column


def _numbers(column: pl.Series) -> pl.Series:
    """The column without NaN. numpy tests for NaN: an expression of polars takes 0.1 ms more, even for few rows."""
    return column.fill_nan(None) if np.isnan(column.to_numpy()).any() else column


def _quotients(sums: pl.Series, counts: Column) -> pl.Series:
    """The quotients; null for a count of 0."""
    return sums / pl.Series(np.asarray(counts, dtype=np.float64))


def _physical(kind: pl.DataType) -> pl.DataType:
    """The type in which accumulators hold values of a type."""
    return pl.Int64() if isinstance(kind, pl.Datetime) else pl.Int32() if kind == pl.Date else kind


def _plain_values(column: pl.Series, kind: pl.DataType) -> Column:
    """Times and dates as whole numbers, decimals as scaled whole numbers."""
    if isinstance(kind, pl.Decimal):
        return [None if one is None else int(one.scaleb(kind.scale, _EXACT)) for one in column.to_list()]
    return column.cast(_physical(kind)).to_list()


def _within(values: Column, least: int, most: int) -> Column:
    return [value if value is None or least <= value <= most else None for value in values]


def _may_overflow(column: pl.Series) -> bool:
    low, high = column.min(), column.max()
    largest = max(abs(int(low or 0)), abs(int(high or 0)))  # type: ignore[arg-type]
    return largest * len(column) >= _INT_LIMIT
