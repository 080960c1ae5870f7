"""Rows kept for a join, found by the hash of their key: a few sorted runs, merged geometrically.

A probe is a binary search of the whole batch in each run, so its cost grows with the logarithm of what is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from services.kernel.operators.operator import TIME

HASH, SEQUENCE = "_hash", "_sequence"


def hashed(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Rows with the hash of their key; only its equality counts, within one process."""
    return rows.with_columns(pl.struct(key).hash().alias(HASH))


class SortedRuns:
    """Rows of one side of a join, with columns HASH, SEQUENCE and TIME."""

    def __init__(self) -> None:
        self._runs: list[tuple[np.ndarray, pl.DataFrame]] = []
        self._oldest = -(2**63)

    def __len__(self) -> int:
        return sum(len(hashes) for hashes, _ in self._runs)

    def add(self, rows: pl.DataFrame) -> None:
        """Takes rows in; merges runs of like size, leaving out what has expired."""
        if not rows.height:
            return
        self._push(rows)
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            (_, upper), (_, lower) = self._runs.pop(), self._runs.pop()
            both = pl.concat([lower, upper])
            self._push(both.filter(pl.col(TIME) >= self._oldest))

    def expire(self, oldest_us: int) -> None:
        """Rows before this time can match nothing any more; they go when their run is merged, or now if most have."""
        self._oldest = oldest_us
        if self._runs and len(self._runs[0][0]) > 1024:
            _, rows = self._runs[0]
            kept = rows.filter(pl.col(TIME) >= oldest_us) if int(rows[TIME].min()) < oldest_us else rows  # type: ignore[arg-type]
            if 2 * kept.height < rows.height:
                self._runs[0] = (kept[HASH].to_numpy(), kept)

    def matches(self, probe: pl.DataFrame) -> list[tuple[np.ndarray, pl.DataFrame]]:
        """(indices into probe, the rows kept for them) with equal hashes, one pair a run."""
        wanted = probe[HASH].to_numpy()
        found = []
        for hashes, rows in self._runs:
            first = np.searchsorted(hashes, wanted, side="left")
            count = np.searchsorted(hashes, wanted, side="right") - first
            total = int(count.sum())
            if total:
                probes = np.repeat(np.arange(len(wanted)), count)
                within = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
                found.append((probes, rows[np.repeat(first, count) + within]))
        return found

    def _push(self, rows: pl.DataFrame) -> None:
        rows = rows.sort(HASH)
        self._runs.append((rows[HASH].to_numpy(), rows))
