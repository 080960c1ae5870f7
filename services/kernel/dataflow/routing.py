"""Routing of the rows of a task's output to the partitions of a data topic.

Source: PROTOCOL 1 (keys go to tasks by xxh3 of a canonical encoding).
"""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.plans.layout import Output


def split(rows: pl.DataFrame, output: Output) -> list[pl.DataFrame]:
    """The rows for each of output.targets, in order; rows keep their order."""
    if len(output.targets) == 1 or rows.height == 0:
        return [rows] * len(output.targets)
    if output.routing == "keyed":
        return _by_partition(
            rows, canonical_keys.partitions(rows, list(output.key), output.partitions), output.partitions
        )
    return _slices(rows, len(output.targets))


def _by_partition(rows: pl.DataFrame, numbers: np.ndarray, count: int) -> list[pl.DataFrame]:
    order = np.argsort(numbers, kind="stable")
    sorted_rows = rows[order]
    bounds = np.searchsorted(numbers[order], np.arange(count + 1))
    return [sorted_rows.slice(start, stop - start) for start, stop in itertools.pairwise(bounds)]


def _slices(rows: pl.DataFrame, count: int) -> list[pl.DataFrame]:
    step = -(-rows.height // count)
    return [rows.slice(index * step, step) for index in range(count)]
