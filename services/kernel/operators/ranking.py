"""Rows that are ranked and kept from batch to batch, of all rows or of each group of them.

A group is named by its encoded key behind eight bytes of that key's hash, by which the table is scanned; without a key
there is one group, of no name. Its pool, in memory, holds its best rows;
those outside are no better than its last one. So the best k of the pool are the best of the group, and only when too
many of its rows were replaced by worse ones is the table read again. A batch works on the pools of its groups, all at
once. Source: JOBS "top", PROTOCOL 4 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.operators.stored_rows import StoredRows
from holdfast.services.kernel.state.table import Table

GROUP = "_group"
"""Column for the number of a row's group in the batch."""
PREFIX_BYTES = 8
"""Length of the hash in the name of a group."""
_KEY = "_key"
_FLOOR = "_floor"
MIN_POOL = 1024
"""Rows of a pool, at least; where there are many groups, a sixteenth."""
MOST_POOLS = 10_000
"""Pools that stay in memory from batch to batch."""


class Order:
    """Order of rows: by one column, nulls and NaN last; ties by the other columns, ascending, in their order."""

    def __init__(self, by: str, columns: Sequence[str], floating: bool, ascending: bool = False) -> None:
        others = [name for name in columns if name != by]
        self._by = [pl.col(by).fill_nan(None) if floating else pl.col(by), *others, by]
        self._descending = [not ascending] + [False] * len(others) + [not ascending]

    def sort(self, rows: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
        """Best first, `within` groups that themselves come in ascending order; equal rows stay as they are."""
        descending = [False] * len(within) + self._descending
        return rows.sort([*within, *self._by], descending=descending, nulls_last=True, maintain_order=True)


class Ranking(Protocol):
    """Rows kept from batch to batch. The frames have the columns of the input without its time, and GROUP."""

    def best(self, groups: Sequence[bytes]) -> pl.DataFrame:
        """The best rows of these groups, group by group."""
        ...

    def update(self, groups: Sequence[bytes], rows: pl.DataFrame, batch: int) -> None: ...


class _Pool(NamedTuple):
    """Rows of a group, best first, with the table's keys. whole: the group has no others."""

    rows: pl.DataFrame
    whole: bool


class Kept:
    """Rows in a table, and in memory those of them that may be among the best.

    Args:
        keyed: there is more than one group.
    """

    def __init__(self, k: int, order: Order, columns: pl.Schema, keyed: bool, table: Table) -> None:
        self.k, self.table = k, table
        self.rows = StoredRows(columns)
        self.order, self._columns = order, list(columns)
        self._size = max(4 * k, MIN_POOL // 16 if keyed else MIN_POOL)
        self._pools: dict[bytes, _Pool] = {}

    def pool(self, group: bytes) -> _Pool:
        if (pool := self._pools.get(group)) is None:
            entries = [entry for entry in self.table.scan(group[:PREFIX_BYTES]) if entry[0].startswith(group)]
            rows = self.rows.decode([value for _, value in entries])
            found = self.order.sort(rows.with_columns(pl.Series(_KEY, [key for key, _ in entries], dtype=pl.Binary)))
            self._pools[group] = pool = _Pool(found.head(self._size), found.height <= self._size)
        return pool

    def best(self, groups: Sequence[bytes]) -> pl.DataFrame:
        return _together([self.pool(group).rows.head(self.k) for group in groups]).select(*self._columns, GROUP)

    def all(self, groups: Sequence[bytes]) -> pl.DataFrame:
        """The pools of these groups, one behind the other."""
        return _together([self.pool(group).rows for group in groups])

    def put(self, groups: Sequence[bytes], rows: pl.DataFrame, keys: Sequence[bytes]) -> None:
        """Adds rows, in place of those with the same keys."""
        pools, keyed = [self.pool(group) for group in groups], rows.with_columns(pl.Series(_KEY, keys, dtype=pl.Binary))
        self.table.put_many(keys, self.rows.encode(rows))
        stay = self.all(groups).join(keyed.select(_KEY), on=_KEY, how="anti", maintain_order="left")
        floors = _together([pool.rows.head(0) if pool.whole else pool.rows.tail(1) for pool in pools])
        parts = [pl.concat([stay, keyed.select(stay.columns)]).with_columns(pl.lit(False).alias(_FLOOR))]
        if floors.height:
            parts.append(floors.with_columns(pl.lit(True).alias(_FLOOR)))
        ranked = self.order.sort(pl.concat(parts), [GROUP])
        for group, pool, part in zip(groups, pools, _apart(ranked, len(groups)), strict=True):
            self._enter(group, pool, part)
        self._forget(groups)

    def _enter(self, group: bytes, pool: _Pool, ranked: pl.DataFrame) -> None:
        """ranked: what the pool has become, with its former last row, unless the pool was whole."""
        if not pool.whole:
            ranked = ranked.head(ranked[_FLOOR].arg_max() or 0)  # what is worse may be worse than rows of the table
            if ranked.height < self.k:
                del self._pools[group]
                return
        rows, whole = ranked.drop(_FLOOR), pool.whole and ranked.height <= 2 * self._size
        self._pools[group] = _Pool(rows if ranked.height <= 2 * self._size else rows.head(self._size), whole)

    def replace(self, groups: Sequence[bytes], best: pl.DataFrame) -> None:
        """Holds these rows of the groups, best first, and no others; the table gets what entered, loses what left."""
        pool = self.all(groups)
        entered = best.join(pool.select(_KEY), on=_KEY, how="anti", maintain_order="left")
        self.table.put_many(entered[_KEY].to_list(), self.rows.encode(entered.select(self._columns)))
        self.table.delete_many(pool.join(best.select(_KEY), on=_KEY, how="anti")[_KEY].sort().to_list())
        parts = _apart(best, len(groups))
        self._pools |= {group: _Pool(rows, True) for group, rows in zip(groups, parts, strict=True)}
        self._forget(groups)

    def _forget(self, but: Sequence[bytes]) -> None:
        """Pools of groups that the batch did not touch, where there are too many."""
        if len(self._pools) > MOST_POOLS:
            self._pools = {group: self._pools[group] for group in but if group in self._pools}


class Replacing:
    """Rows replace earlier ones of the same key; all stay, for a row may fall."""

    def __init__(self, kept: Kept, row_key: Sequence[str]) -> None:
        self._kept, self._row_key = kept, list(row_key)

    def best(self, groups: Sequence[bytes]) -> pl.DataFrame:
        return self._kept.best(groups)

    def update(self, groups: Sequence[bytes], rows: pl.DataFrame, batch: int) -> None:
        latest = rows.unique(self._row_key, keep="last", maintain_order=True)
        encoded = canonical_keys.encode(latest, self._row_key)
        self._kept.put(groups, latest, [groups[at] + key for at, key in zip(latest[GROUP], encoded, strict=True)])


class Growing:
    """Rows are only added: no row outside the best k can ever rise."""

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


def _together(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Frames of groups as one, with the number of the group."""
    numbers = np.repeat(np.arange(len(parts)), [part.height for part in parts])
    rows = parts[0] if len(parts) == 1 else pl.concat(parts)
    return rows.with_columns(pl.Series(GROUP, numbers, dtype=pl.Int64))


def _apart(rows: pl.DataFrame, count: int) -> list[pl.DataFrame]:
    """Rows that stand group by group, a frame a group, without the number."""
    bounds = np.searchsorted(rows[GROUP].to_numpy(), np.arange(count + 1))
    plain = rows.drop(GROUP)
    return [plain[int(bounds[at]) : int(bounds[at + 1])] for at in range(count)]


def _places(numbers: np.ndarray) -> np.ndarray:
    """The place of each row in its group, from 0; rows stand group by group."""
    found: np.ndarray = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
    return found


def _first(rows: pl.DataFrame, k: int) -> pl.DataFrame:
    """The first k of each group."""
    return rows.filter(pl.Series(_places(rows[GROUP].to_numpy()) < k))


def ranked(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """With the rank of each row in its group, from 1."""
    return rows.with_columns(pl.Series(name, _places(rows[GROUP].to_numpy()) + 1, dtype=pl.Int64))


def changed(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """The rows of `after` that differ from those `before` at their place in their group."""
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
