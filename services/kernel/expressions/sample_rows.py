"""Rows of a schema by which an expression is judged: none at all, for its type, and invented ones, for its values.

They are kept by schema: a job has many expressions over one schema, and an empty frame takes 50 us a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import polars as pl

SCHEMAS = 64
"""The number of schemas whose rows are kept."""
Columns = tuple[tuple[str, pl.DataType], ...]


def no_rows(schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """A frame without rows."""
    return _no_rows(tuple(schema.items()))


def invented_rows(schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Three rows; all values of the first are null."""
    return _invented_rows(tuple(schema.items()))


@lru_cache(SCHEMAS)
def _no_rows(columns: Columns) -> pl.LazyFrame:
    return pl.DataFrame(schema=dict(columns)).lazy()


@lru_cache(SCHEMAS)
def _invented_rows(columns: Columns) -> pl.DataFrame:
    nulls = pl.DataFrame({name: pl.Series(name, [None], dtype=kind) for name, kind in columns})
    plain = [(name, kind) for name, kind in columns if not kind.is_nested() and kind != pl.Binary]
    others = (
        nulls.with_columns(pl.lit(value, pl.Int64).cast(kind, strict=False).alias(name) for name, kind in plain)
        for value in (2, -3)
    )
    return pl.concat([nulls, *others])
