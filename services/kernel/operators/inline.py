"""Operations on frames that run in the calling thread.

Polars runs `DataFrame.filter`, joins and groupings in a thread of its own pool: two switches between threads. On a
machine with busy processors each switch waits for its turn: 0.05 ms became 15 ms a batch.
"""

from __future__ import annotations

import polars as pl


def where(rows: pl.DataFrame, mask: pl.Series) -> pl.DataFrame:
    """The rows at which the mask is true; null counts as false. Returns the frame itself if the mask is true
    everywhere.
    """
    if mask.all(ignore_nulls=False):
        return rows
    return pl.DataFrame([column.filter(mask) for column in rows.get_columns()])
