"""Rows that are ranked and kept between batches, over all rows or in each group.

The name of a group is its encoded key after eight bytes of the key's hash, by which the table is scanned; without a key
there is one group with an empty name. The pool of a group, in memory, holds its best rows; rows outside the pool are no
better than its last one. So the best k of the pool are the best of the group, and the table is read again only when too
many of the pool's rows were replaced by worse ones. A batch works on the pools of all its groups at once. Source: JOBS
"top", PROTOCOL 4 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.operators.ranked_pools import GROUP, Pools
from holdfast.services.kernel.operators.stored_rows import StoredRows
from holdfast.services.kernel.state.table import Table

PREFIX_BYTES = 8
"""The length of the hash in the name of a group."""
_KEY = "_key"
_FLOOR = "_floor"
MIN_POOL = 1024
"""The least number of rows of a pool; with many groups, a sixteenth of it."""


class Order:
    """The order of rows: by one column, nulls and NaN last; ties by the other columns, ascending, in their order."""

    def __init__(self, by: str, columns: Sequence[str], floating: bool, ascending: bool = False) -> None:
        others = [name for name in columns if name != by]
        self._by = [pl.col(by).fill_nan(None) if floating else pl.col(by), *others, by]
        self._descending = [not ascending] + [False] * len(others) + [not ascending]

    def sort(self, rows: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
        """Sorts rows, best first, inside groups of the columns `within` in ascending order; equal rows keep their
        order.
        """
        descending = [False] * len(within) + self._descending
        return rows.sort([*within, *self._by], descending=descending, nulls_last=True, maintain_order=True)


class Ranking(Protocol):
    """Rows kept between batches. The frames have the columns of the input without its time, and GROUP."""

    def best(self, groups: Sequence[bytes]) -> pl.DataFrame:
        """The best rows of these groups, group by group."""
        ...

    def update(self, groups: Sequence[bytes], rows: pl.DataFrame, batch: int) -> None: ...


class Kept:
    """Rows in a table, and in memory those that may be among the best.

    Args:
        k: the number of best rows per group.
        order: the order of the rows.
        columns: the columns of the rows.
        keyed: True if there is more than one group.
        table: the table of the rows.
    """

    def __init__(self, k: int, order: Order, columns: pl.Schema, keyed: bool, table: Table) -> None:
        self.k = k
        self.table = table
        self.rows = StoredRows(columns)
        self.order = order
        self._columns = list(columns)
        self._size = max(4 * k, MIN_POOL // 16 if keyed else MIN_POOL)
        self._pools = Pools([*columns, _KEY])

    def best(self, groups: Sequence[bytes]) -> pl.DataFrame:
        self._load(groups)
        return self._pools.first(groups, self.k).select(*self._columns, GROUP)

    def all(self, groups: Sequence[bytes]) -> pl.DataFrame:
        """The pools of these groups, group by group."""
        self._load(groups)
        return self._pools.first(groups, None)

    def put(self, groups: Sequence[bytes], rows: pl.DataFrame, keys: Sequence[bytes]) -> None:
        """Adds rows; a row replaces the one with the same key."""
        keyed = rows.with_columns(pl.Series(_KEY, keys, dtype=pl.Binary))
        pool = self.all(groups)
        self.table.put_many(keys, self.rows.encode(rows))
        stay = pool.join(keyed.select(_KEY), on=_KEY, how="anti", maintain_order="left")
        parts = [pl.concat([stay, keyed.select(stay.columns)]).with_columns(pl.lit(False).alias(_FLOOR))]
        floors = self._pools.floors(groups)
        if floors.height:
            parts.append(floors.with_columns(pl.lit(True).alias(_FLOOR)))
        self._enter(groups, self.order.sort(pl.concat(parts), [GROUP]))

    def _enter(self, groups: Sequence[bytes], ranked: pl.DataFrame) -> None:
        """Stores changed pools.

        ranked: the rows of the changed pools, with the former last row of each pool that was not whole.
        """
        numbers, floors = ranked[GROUP].to_numpy(), ranked[_FLOOR].to_numpy()
        bounds = np.searchsorted(numbers, np.arange(len(groups) + 1))
        whole, heights = self._pools.whole(groups), np.diff(bounds)
        at = np.flatnonzero(floors)  # rows worse than a floor may be worse than rows of the table
        heights[numbers[at]] = at - bounds[numbers[at]]
        again = ~whole & (heights < self.k)  # the table is to be read
        fits = heights <= 2 * self._size
        heights = np.where(again, 0, np.where(fits, heights, self._size))
        kept = ranked.filter(pl.Series(_places(numbers) < heights[numbers])).drop(_FLOOR)
        self._pools.enter(groups, kept, whole & fits)
        self._pools.drop([groups[number] for number in np.flatnonzero(again).tolist()])
        self._pools.forget(groups)

    def replace(self, groups: Sequence[bytes], best: pl.DataFrame) -> None:
        """Makes these rows, best first, the only rows of the groups; the table gets the new ones and loses the
        others.
        """
        pool = self.all(groups)
        entered = best.join(pool.select(_KEY), on=_KEY, how="anti", maintain_order="left")
        self.table.put_many(entered[_KEY].to_list(), self.rows.encode(entered.select(self._columns)))
        self.table.delete_many(pool.join(best.select(_KEY), on=_KEY, how="anti")[_KEY].sort().to_list())
        self._pools.enter(groups, best, np.ones(len(groups), dtype=bool))
        self._pools.forget(groups)

    def end(self, groups: Sequence[bytes]) -> None:
        """Forgets all rows of these groups."""
        for group in groups:
            keys = [key for key, _ in self.table.scan(group[:PREFIX_BYTES]) if key.startswith(group)]
            self.table.delete_many(keys)
        self._pools.drop([*groups])

    def _load(self, groups: Sequence[bytes]) -> None:
        """Reads the pools that are not in memory from the table."""
        missing = self._pools.missing(groups)
        if not missing:
            return
        found = [
            (number, key, value)
            for number, group in enumerate(missing)
            for key, value in self.table.scan(group[:PREFIX_BYTES])
            if key.startswith(group)
        ]
        rows = self.rows.decode([value for _, _, value in found]).with_columns(
            pl.Series(_KEY, [key for _, key, _ in found], dtype=pl.Binary),
            pl.Series(GROUP, [number for number, _, _ in found], dtype=pl.Int64),
        )
        heights = np.bincount(rows[GROUP].to_numpy(), minlength=len(missing))
        self._pools.enter(missing, _first(self.order.sort(rows, [GROUP]), self._size), heights <= self._size)


class Replacing:
    """The ranking of rows that replace earlier ones of the same key; all are kept, because a row may get worse."""

    def __init__(self, kept: Kept, row_key: Sequence[str]) -> None:
        self._kept = kept
        self._row_key = list(row_key)

    def best(self, groups: Sequence[bytes]) -> pl.DataFrame:
        return self._kept.best(groups)

    def update(self, groups: Sequence[bytes], rows: pl.DataFrame, batch: int) -> None:
        latest = rows.unique(self._row_key, keep="last", maintain_order=True)
        encoded = canonical_keys.encode(latest, self._row_key)
        self._kept.put(groups, latest, [groups[at] + key for at, key in zip(latest[GROUP], encoded, strict=True)])


class Growing:
    """The ranking of rows that are only added: no row outside the best k can ever rise."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def best(self, groups: Sequence[bytes]) -> pl.DataFrame:
        return self._kept.best(groups)

    def update(self, groups: Sequence[bytes], rows: pl.DataFrame, batch: int) -> None:
        order, k = self._kept.order, self._kept.k
        candidates = _first(order.sort(rows, [GROUP]), k)
        places = _places(candidates[GROUP].to_numpy()).tolist()
        named = zip(candidates[GROUP].to_list(), places, strict=True)
        keys = [groups[at] + batch.to_bytes(8, "big") + place.to_bytes(4, "big") for at, place in named]
        pool = self._kept.all(groups)
        added = candidates.with_columns(pl.Series(_KEY, keys, dtype=pl.Binary)).select(pool.columns)
        self._kept.replace(groups, _first(order.sort(pl.concat([pool, added]), [GROUP]), k))


def _places(numbers: np.ndarray) -> np.ndarray:
    """The position of each row in its group, from 0; rows are in the order of groups."""
    found: np.ndarray = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
    return found


def _first(rows: pl.DataFrame, k: int) -> pl.DataFrame:
    """The first k of each group."""
    return rows.filter(pl.Series(_places(rows[GROUP].to_numpy()) < k))


def ranked(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """The rows with their rank in the group, from 1."""
    return rows.with_columns(pl.Series(name, _places(rows[GROUP].to_numpy()) + 1, dtype=pl.Int64))


def changed(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """The rows of `after` that differ from the row of `before` at the same position of their group."""
    if not before.height:
        return after
    width = max(before.height, after.height) + 1
    codes, wanted = (one[GROUP].to_numpy() * width + _places(one[GROUP].to_numpy()) for one in (before, after))
    at = np.searchsorted(codes, wanted).clip(max=len(codes) - 1)
    known = codes[at] == wanted
    was = before[at]
    different = pl.Series(~known)
    for name in before.columns:
        different |= after[name].ne_missing(was[name])
    return after.filter(different)
