"""Running totals with a limited life: the total of a key lives for a fixed time after its newest row.

A row that is at least this time later than the newest earlier row of its key begins a new total, even in the same
batch. So the total of a row depends on the order of the rows, and not on their division into batches. A total is
deleted once the watermark has passed its end, because no row in time counts in it any more.
Source: JOBS "aggregate", PROTOCOL 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.keys import canonical_floats
from holdfast.services.kernel.operators.ends import Ends
from holdfast.services.kernel.operators.grouping import State
from holdfast.services.kernel.operators.operator import TIME
from holdfast.services.kernel.state.table import Table


class Part(NamedTuple):
    """Rows of a batch in which each key has one total.

    at: the positions of the rows.
    begin: the keys whose total begins again with these rows.
    """

    at: np.ndarray
    begin: list[bytes]


class Lifespans:
    """The ends of the totals of one task.

    Args:
        key: the key columns.
        after_us: the time that a total lives after its newest row, in microseconds.
        totals: the table of the totals.
        newest: returns the event time of a total's newest row.
    """

    def __init__(self, key: Sequence[str], after_us: int, totals: Table, newest: Callable[[State], int]) -> None:
        self._key = list(key)
        self._after_us = after_us
        self._totals = totals
        self._newest = newest
        self._ends: Ends | None = None

    def parts(self, rows: pl.DataFrame) -> Iterator[Part]:
        """Yields the rows of a batch in parts; nearly always there is one part."""
        encoded, group = self._grouped(rows)
        stored = [None if state is None else self._newest(state) for state in self._totals.get_many(encoded)]
        times = pl.DataFrame({"group": group, "time": rows[TIME], "stored": pl.Series(stored, dtype=pl.Int64)[group]})
        seen = pl.max_horizontal(pl.col("time").cum_max().shift(1).over("group"), "stored")
        begins = times.select((pl.col("time") - seen >= self._after_us).fill_null(False)).to_series()
        if not begins.any():
            yield Part(np.arange(rows.height), [])
            return
        counted = times.with_columns(begins.cast(pl.Int64).alias("begins"))
        nth = counted.select(pl.col("begins").cum_sum().over("group")).to_series().to_numpy()
        for part in range(int(nth.max()) + 1):
            at = np.flatnonzero(nth == part)
            if len(at):
                yield Part(at, [encoded[one] for one in np.unique(group[at])] if part else [])

    def _grouped(self, rows: pl.DataFrame) -> tuple[list[bytes], np.ndarray]:
        """The distinct keys of a batch, and the number of each row's key."""
        if not self._key:
            return [b""], np.zeros(rows.height, dtype=np.int64)
        named = pl.DataFrame([canonical_floats(rows[name]) for name in self._key])
        first, group = canonical_keys.groups(named, self._key)
        encoded = canonical_keys.encode(named[first], self._key)
        at = {one: place for place, one in enumerate(dict.fromkeys(encoded))}  # equal keys may count as distinct
        return list(at), np.array([at[one] for one in encoded], dtype=np.int64)[group]

    def note(self, keys: Sequence[bytes], newest: Sequence[int]) -> None:
        """Notes the ends of totals, by the time of their newest row."""
        if self._ends is not None:
            for key, at in zip(keys, newest, strict=True):
                self._ends.note(key, at + self._after_us)

    def end(self, watermark: int) -> list[bytes]:
        """Deletes the totals whose end the watermark has passed; returns their keys."""
        if self._ends is None:  # read from the state at first use
            self._ends = Ends({key: self._newest(state) + self._after_us for key, state in self._totals.scan(b"")})
        keys = self._ends.until(watermark)
        found = zip(keys, self._totals.get_many(keys), strict=True)
        ends = {key: self._newest(state) + self._after_us for key, state in found if state is not None}
        over = [key for key, end in ends.items() if end <= watermark]
        self._totals.delete_many(over)
        for key, end in ends.items():
            if end > watermark:
                self._ends.note(key, end)
        return over
