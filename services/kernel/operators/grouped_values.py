"""The values of each group of a batch, as Arrow's list aggregates return them, sorted in one go.

Source: PROTOCOL 4 (no work a record in Python).
"""

from __future__ import annotations

import numpy as np
import polars as pl


def sorted_within(lists: pl.Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tuple (values, starts, bounds), without nulls.

    values: the values group by group, ascending in each.
    starts: the positions at which a group or a different value begins.
    bounds: the position of each group in `starts`, and the end of the last.
    """
    lists = lists.list.drop_nulls()
    lengths = lists.list.len().to_numpy().astype(np.int64)
    values = lists.filter(lists.list.len() > 0).explode().to_numpy()
    groups = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((values, groups))
    values, groups = values[order], groups[order]
    begins = np.ones(len(values), dtype=bool)
    begins[1:] = (values[1:] != values[:-1]) | (groups[1:] != groups[:-1])
    starts = np.flatnonzero(begins)
    return values, starts, np.searchsorted(groups[starts], np.arange(len(lengths) + 1))
