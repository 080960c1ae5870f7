"""Rows kept for a join, found by the hash of their key: a few sorted runs, merged geometrically.

A probe is a binary search of a whole batch in each run, so its cost grows with the logarithm of the number of kept
rows.
Source: JOBS "join".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs.keys import canonical_floats
from holdfast.services.kernel.operators.operator import TIME

Numbers = np.ndarray
_GROWTH = 3


@dataclass(frozen=True, slots=True)
class Run:
    """Rows in the order of their key's hash.

    numbers: the numbers of the rows, in order of arrival.
    """

    hashes: Numbers
    times: Numbers
    numbers: Numbers
    rows: pl.DataFrame

    def __len__(self) -> int:
        return len(self.hashes)


def run_of(rows: pl.DataFrame, key: Sequence[str], first: int) -> Run:
    """Rows as a run, numbered from `first`; rows with a null key, which match nothing, are left out."""
    numbers = np.arange(first, first + rows.height)
    floats = [name for name in key if rows.schema[name].is_float()]
    if floats:
        rows = rows.with_columns(canonical_floats(rows[name]) for name in floats)
    present = [rows[name].is_not_null() for name in key if rows[name].null_count()]
    for mask in present:
        rows = rows.filter(mask) if len(present) == 1 else rows
    if present:
        both = np.logical_and.reduce([mask.to_numpy() for mask in present])
        numbers = numbers[both]
        rows = rows if len(present) == 1 else rows.filter(pl.Series(both))
    hashes = _hashes(rows, key)
    order = np.argsort(hashes, kind="stable")
    return Run(hashes[order], rows[TIME].to_numpy()[order], numbers[order], taken(rows, order))


def taken(rows: pl.DataFrame, positions: Numbers) -> pl.DataFrame:
    """The rows at these positions. A series as index saves polars the checks of an array."""
    return rows[pl.Series(positions.astype(np.uint32))]


def _hashes(rows: pl.DataFrame, key: Sequence[str]) -> Numbers:
    """A hash of each row's key; only equality within one process is meaningful."""
    hashed = rows[key[0]].hash() if len(key) == 1 else rows.select(key).hash_rows()
    return hashed.to_numpy()


class SortedRuns:
    """The rows of one side of a join, in sorted runs."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._oldest = -(2**63)

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def add(self, run: Run) -> None:
        """Adds rows; merges runs of similar size and drops expired rows from them."""
        if not len(run):
            return
        self._runs.append(run)
        while len(self._runs) > 1 and len(self._runs[-2]) < _GROWTH * len(self._runs[-1]):
            self._merge(2)

    def expire(self, oldest_us: int, alive: int) -> None:
        """Expires the rows before this time, which match nothing any more.

        alive: the most rows that remain. Expired rows are dropped at the next merge of their run, or now if they are
        the majority.
        """
        self._oldest = oldest_us
        if len(self) > 2 * alive + 1024:
            self._merge(len(self._runs))

    def matches(self, probe: Run, later_us: tuple[int, int], oldest_us: int) -> Iterator[tuple[Numbers, Run, Numbers]]:
        """Yields (positions in the probe, a run, positions in the run) of rows with equal hashes and near times.

        later_us: the least and the most time by which the probe's row is later; negative: earlier.
        oldest_us: rows before this time match nothing, even while they are still in a run.
        """
        for run in self._runs:
            first = np.searchsorted(run.hashes, probe.hashes)
            hits = np.flatnonzero(run.hashes[np.minimum(first, len(run) - 1)] == probe.hashes)
            if not len(hits):
                continue
            first = first[hits]
            count = np.searchsorted(run.hashes, probe.hashes[hits], side="right") - first
            probed = np.repeat(hits, count)
            found = np.arange(len(probed)) + np.repeat(first - np.cumsum(count) + count, count)
            times = run.times[found]
            later = probe.times[probed] - times
            near = (later >= later_us[0]) & (later <= later_us[1]) & (times >= oldest_us)
            if near.any():
                yield probed[near], run, found[near]

    def _merge(self, count: int) -> None:
        """Merges the last `count` runs into one."""
        runs = self._runs[-count:]
        del self._runs[-count:]
        times = np.concatenate([run.times for run in runs])
        kept = np.flatnonzero(times >= self._oldest)
        hashes = np.concatenate([run.hashes for run in runs])[kept]
        order = np.argsort(hashes, kind="stable")
        kept = kept[order]
        numbers = np.concatenate([run.numbers for run in runs])[kept]
        if len(kept):
            rows = pl.concat([run.rows for run in runs])
            self._runs.append(Run(hashes[order], times[kept], numbers, taken(rows, kept)))
