"""collect_list, collect_set and string_agg: collections of the values themselves, at most 1,000 of them.

A list keeps the first values by event time, for equal times the smallest; a set keeps the smallest values. So a memory
depends neither on the order of the rows nor on batches, and is bounded.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import Any

import polars as pl

MOST = 1_000
COLLECTING = ("collect_list", "collect_set", "string_agg")


def lists(values: pl.Series, times: pl.Series) -> list[tuple[tuple[int, Any], ...] | None]:
    """A memory for each group: pairs of a time and a value, ascending.

    values: Arrow's list of values of each group.
    times: Arrow's list of times of each group.
    """
    frame = pl.DataFrame([values.alias("v"), times.alias("t")]).with_row_index("g")
    rows = frame.filter(pl.col("v").list.len() > 0).explode("v", "t").drop_nulls("v").sort("g", "t", "v")
    groups = rows.group_by("g", maintain_order=True).agg(pl.col("t", "v").head(MOST))
    found = dict(zip(groups["g"].to_list(), map(_pairs, groups["t"].to_list(), groups["v"].to_list()), strict=True))
    return [found.get(group) for group in range(len(values))]


def _pairs(times: list[int], values: list[Any]) -> tuple[tuple[int, Any], ...]:
    return tuple(zip(times, values, strict=True))


def sets(values: pl.Series) -> list[tuple[Any, ...] | None]:
    """A memory for each group: its distinct values, ascending."""
    kept = values.list.drop_nulls().list.unique().list.sort().list.head(MOST)
    return [tuple(one) if one else None for one in kept.to_list()]


def merged_lists(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(islice(merge(one, other), MOST))


def merged_sets(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted({*one, *other})[:MOST])
