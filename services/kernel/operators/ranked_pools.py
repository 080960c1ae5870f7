"""Pools of ranked rows in memory: the pools of many groups are joined in a few frames.

A batch touches hundreds of groups, so the only work per group is the look-up of a pool's position. With a frame for
each pool, the fixed cost of each polars call was most of the time of `top` with a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

GROUP = "_group"
"""The column with the number of a row's group in the batch."""
MOST_POOLS = 10_000
"""The most pools that stay in memory between batches."""
MOST_SEGMENTS = 32
"""The most frames that hold pools; beyond it they are merged into one."""


class _Place(NamedTuple):
    """The position of a pool's rows in a segment, best first.

    whole: True if the group has no other rows.
    """

    segment: int
    start: int
    stop: int
    whole: bool


class Pools:
    """The pools by the name of their group.

    columns: the columns of their rows.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)
        self._segments: list[pl.DataFrame] = []
        self._places: dict[bytes, _Place] = {}

    def missing(self, groups: Sequence[bytes]) -> list[bytes]:
        """The groups without a pool in memory."""
        return [group for group in groups if group not in self._places]

    def whole(self, groups: Sequence[bytes]) -> np.ndarray:
        return np.array([self._places[group].whole for group in groups], dtype=bool)

    def first(self, groups: Sequence[bytes], most: int | None) -> pl.DataFrame:
        """The first rows of each pool, or all, group by group, with the number of the group."""
        segments, start, stop = self._bounds(groups)
        return self._rows(segments, start, stop if most is None else np.minimum(stop, start + most))

    def floors(self, groups: Sequence[bytes]) -> pl.DataFrame:
        """The last row of each pool that is not whole."""
        segments, start, stop = self._bounds(groups)
        return self._rows(segments, np.where(self.whole(groups), stop, np.maximum(start, stop - 1)), stop)

    def enter(self, groups: Sequence[bytes], rows: pl.DataFrame, whole: np.ndarray) -> None:
        """Adds new pools of these groups.

        rows: the rows of all pools, group by group, with the group numbers.
        """
        bounds = np.searchsorted(rows[GROUP].to_numpy(), np.arange(len(groups) + 1)).tolist()
        at = len(self._segments)
        self._segments.append(rows.select(self._columns))
        for group, start, stop, all_ in zip(groups, bounds, bounds[1:], whole.tolist(), strict=False):
            self._places[group] = _Place(at, start, stop, all_)
        if len(self._segments) > MOST_SEGMENTS:
            self._merge()

    def drop(self, groups: Sequence[bytes]) -> None:
        for group in groups:
            self._places.pop(group, None)

    def forget(self, but: Sequence[bytes]) -> None:
        """Drops pools of groups that the batch did not touch, if there are too many."""
        if len(self._places) > MOST_POOLS:
            self._places = {group: self._places[group] for group in but if group in self._places}
            self._merge()

    def _merge(self) -> None:
        """Merges all pools into one segment, without rows that belong to no pool."""
        groups, whole = list(self._places), self.whole(list(self._places))
        rows = self.first(groups, None)
        self._segments = []
        self.enter(groups, rows, whole)

    def _bounds(self, groups: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The segment, start and stop of each pool."""
        places = [self._places[group][:3] for group in groups]
        found = np.array(places, dtype=np.int64).reshape(len(places), 3)
        return found[:, 0], found[:, 1], found[:, 2]

    def _rows(self, segments: np.ndarray, start: np.ndarray, stop: np.ndarray) -> pl.DataFrame:
        counts = stop - start
        begin = np.cumsum(counts) - counts
        parts, places = list[pl.DataFrame](), list[np.ndarray]()
        for segment in np.unique(segments).tolist():
            of = np.flatnonzero((segments == segment) & (counts > 0))
            within = np.arange(int(counts[of].sum())) - np.repeat(np.cumsum(counts[of]) - counts[of], counts[of])
            parts.append(self._segments[segment][np.repeat(start[of], counts[of]) + within])
            places.append(np.repeat(begin[of], counts[of]) + within)
        rows = parts[0] if len(parts) == 1 else pl.concat(parts)[np.argsort(np.concatenate(places))]
        return rows.with_columns(pl.Series(GROUP, np.repeat(np.arange(len(counts)), counts), dtype=pl.Int64))
