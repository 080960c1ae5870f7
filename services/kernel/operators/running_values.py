"""Running values: the aggregates of a key after each of its rows.

Rows are sorted by group, each group after its stored values, and one pass over all of them computes the values. Sums of
floats are exact up to each row. Source: JOBS "emit: each", PROTOCOL 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from holdfast.services.kernel.operators import exact_sums
from holdfast.services.kernel.operators.accumulators import Aggregate, Column, Columns
from holdfast.services.kernel.operators.exact_sums import Memories
from holdfast.services.kernel.operators.grouping import Grouping, State

_SMALL = 2**16


class Segments:
    """The order of rows by group. A sequence has one item for each group (its stored value), then one for each row."""

    def __init__(self, group: np.ndarray, groups: int) -> None:
        self._groups = groups
        both = np.concatenate((np.arange(groups), group))
        self._order = (both.astype(np.uint16) if groups <= _SMALL else both).argsort(kind="stable")
        self._group = both[self._order]
        self._heads = np.flatnonzero(self._order < groups)

    def totals(self, sequence: np.ndarray) -> np.ndarray:
        """The sums of whole numbers up to each row; overflows of intermediate sums do no harm."""
        ordered = sequence[self._order]
        sums = ordered.cumsum()
        return self._by_row(sums - (sums - ordered)[self._heads][self._group])

    def float_totals(self, stored: Memories, values: np.ndarray) -> Memories:
        """Exact sums of floats up to each row.

        stored: the stored sum of each group.
        """
        cut = exact_sums.levels(values)
        sums = [self._level_totals(level) for level in cut.columns]
        before = exact_sums.chosen(stored, self._by_row(self._group))
        return exact_sums.added(before, exact_sums.of_groups(cut, sums))

    def _level_totals(self, level: np.ndarray) -> np.ndarray:
        """The sums of a level up to each row; none is rounded."""
        ordered = np.concatenate((np.zeros(self._groups), level))[self._order]
        frame = pl.DataFrame({"group": self._group, "value": ordered})
        return self._by_row(frame.select(pl.col("value").cum_sum().over("group")).to_series().to_numpy())

    def highest(self, score: np.ndarray, newer: bool) -> np.ndarray:
        """The position in the sequence of the highest score up to each row; for equal scores the newest or the
        oldest.
        """
        ranked = self._group * (int(score.max(initial=0)) + 1) + score[self._order]
        before = np.concatenate(([-1], np.maximum.accumulate(ranked)[:-1]))
        rises = ranked >= before if newer else ranked > before
        at = np.maximum.accumulate(np.where(rises, np.arange(len(ranked)), 0))
        return self._by_row(self._order[at])

    def _by_row(self, ordered: np.ndarray) -> np.ndarray:
        """The values in the order of the rows' arrival."""
        back = np.empty_like(ordered)
        back[self._order] = ordered
        return back[self._groups :]


def after_each(
    grouping: Grouping, rows: pl.DataFrame, time: str, keys: pl.DataFrame, states: Sequence[State | None]
) -> list[pl.Series]:
    """The columns of all aggregates, with a value for each row.

    keys: the keys of the groups.
    states: the states of the groups before the rows.
    """
    segments = Segments(grouping.numbers(rows, keys), len(states))
    blank: State = (None,) * grouping.width
    stored = grouping.columns_of([blank if state is None else state for state in states])
    prepared = iter(grouping.prepared(rows, time))
    series, start = [], 0
    for aggregate in grouping.aggregates:
        columns = [next(prepared) for _ in range(aggregate.inputs)]
        old = stored[start : start + aggregate.width]
        series.append(aggregate.value(_AFTER[aggregate.function](aggregate, columns, old, segments)))
        start += aggregate.width
    return series


def _counts(aggregate: Aggregate, columns: Sequence[pl.Series], stored: Columns, segments: Segments) -> Columns:
    known = columns[0].is_not_null().to_numpy().astype(np.int64)
    return [segments.totals(np.concatenate((_or_zero(stored[-1], np.int64), known))).tolist()]


def _sums(aggregate: Aggregate, columns: Sequence[pl.Series], stored: Columns, segments: Segments) -> Columns:
    (values,), old = columns, stored[0]
    if aggregate.kind.is_float():
        return _float_sums(values, (old, stored[1]), segments)
    sums = segments.totals(_whole_numbers(aggregate, values, old)).tolist()
    seen = _seen([value is not None for value in old], values, segments)
    return [sums if seen.all() else [value if some else None for value, some in zip(sums, seen, strict=True)]]


def _float_sums(values: pl.Series, stored: Memories, segments: Segments) -> Columns:
    sums = segments.float_totals(stored, values.cast(pl.Float64).fill_null(0.0).to_numpy())
    seen = _seen(exact_sums.values(stored).is_not_null().to_list(), values, segments)
    return list(sums if seen.all() else exact_sums.without(sums, ~seen))


def _seen(before: Sequence[bool], values: pl.Series, segments: Segments) -> np.ndarray:
    """True for each row up to which there was a value.

    before: for each group, True if it had a value before the rows.
    """
    anything = np.concatenate((before, values.is_not_null().to_numpy()))
    return segments.totals(anything.astype(np.int64)) > 0


def _means(aggregate: Aggregate, columns: Sequence[pl.Series], stored: Columns, segments: Segments) -> Columns:
    return _sums(aggregate, columns, stored, segments) + _counts(aggregate, columns, stored, segments)


def _extremes(aggregate: Aggregate, columns: Sequence[pl.Series], stored: Columns, segments: Segments) -> Columns:
    values = _sequence(aggregate, stored[0], columns[0])
    at = segments.highest(_scores(values, aggregate.function == "min"), newer=False)
    return [values.gather(at).to_list()]


def _by_time(aggregate: Aggregate, columns: Sequence[pl.Series], stored: Columns, segments: Segments) -> Columns:
    """first: the value of the oldest row, for equal times the first to arrive; last: of the newest, the last to
    arrive.
    """
    value, time = columns
    times = pl.concat([pl.Series(time.name, stored[0], dtype=time.dtype), time])
    values = _sequence(aggregate, stored[1], value)
    first = aggregate.function == "first"
    at = segments.highest(_scores(times, first), newer=not first)
    return [values.gather(at).to_list()]


After = Callable[[Aggregate, Sequence[pl.Series], Columns, Segments], Columns]
"""A function of prepared columns and stored accumulators that returns, for each accumulator, its value after each row.
"""
_AFTER: dict[str, After] = {
    "count": _counts,
    "sum": _sums,
    "mean": _means,
    "min": _extremes,
    "max": _extremes,
    "first": _by_time,
    "last": _by_time,
}
EACH = tuple(_AFTER)
"""The aggregates that are available after each record; the others cost too much to be computed for every record."""


def _or_zero(values: Column, kind: type[np.generic]) -> np.ndarray:
    return np.array([value or 0 for value in values], dtype=kind)


def _whole_numbers(aggregate: Aggregate, values: pl.Series, old: Column) -> np.ndarray:
    """The stored values and the new ones as 64-bit integers, or as Python integers if a total may not fit."""
    stored = [value or 0 for value in old]
    if values.dtype == pl.Int64:
        numbers = values.fill_null(0).to_numpy()
        largest = max(abs(int(numbers.max())), abs(int(numbers.min())))
        if max(map(abs, stored)) + largest * len(numbers) < 2**63:
            return np.concatenate((np.array(stored, dtype=np.int64), numbers))
    return np.array([*stored, *(value or 0 for value in aggregate.accumulators(values))], dtype=object)


def _sequence(aggregate: Aggregate, stored: Column, values: pl.Series) -> pl.Series:
    """The stored values and the rows' values, in a type with the same order; decimals as scaled integers."""
    if isinstance(aggregate.kind, pl.Decimal):
        return pl.Series(values.name, [*stored, *aggregate.accumulators(values)], dtype=pl.Int128)
    return pl.concat([pl.Series(values.name, stored, dtype=values.dtype), values])


def _scores(values: pl.Series, lowest: bool) -> np.ndarray:
    """Whole numbers in the order of the values, or the reverse; 0 for null."""
    return values.rank("dense", descending=lowest).fill_null(0).cast(pl.Int64).to_numpy()
