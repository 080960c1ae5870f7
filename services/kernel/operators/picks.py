"""max_by and min_by: the value of the row at which another value is the largest or the smallest.

Of rows equal in that, the smallest value is taken, so that order and batches do not matter. Rows in which one of the
two is null are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

PICKS = ("max_by", "min_by")


def ranked(by: pl.Series, value: pl.Series, largest: bool) -> pl.Series:
    """The rank of each row, in an order whose last row is taken; null if one of both values is null."""
    order = pl.DataFrame([by.alias("by"), value.alias("value")]).select(
        pl.arg_sort_by("by", "value", descending=[not largest, True])
    )
    places = np.empty(len(by), dtype=np.int64)
    places[order.to_series().to_numpy()] = np.arange(len(by))
    return pl.Series(places).set(by.is_null() | value.is_null(), None)


def taken(places: pl.Series, taken_places: pl.Series, column: pl.Series) -> pl.Series:
    """The values of a column in the rows that have these places; null for null."""
    rows = np.zeros(len(places), dtype=np.int64)
    known = places.is_not_null().to_numpy()
    rows[places.drop_nulls().to_numpy()] = np.flatnonzero(known)
    found = column.gather(rows[taken_places.fill_null(0).to_numpy()]) if len(places) else column
    return found.set(taken_places.is_null(), None)


def merged(largest: bool, old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """Merges two memories, each a column of deciding values and one of results."""
    kept = [_is_kept(largest, *both) for both in zip(*old, *new, strict=True)]
    return [[a if keep else b for keep, a, b in zip(kept, x, y, strict=True)] for x, y in zip(old, new, strict=True)]


def _is_kept(largest: bool, by: Any, value: Any, other_by: Any, other: Any) -> bool:
    if by is None or other_by is None:
        return other_by is None
    return bool(value <= other) if by == other_by else bool((by > other_by) is largest)
