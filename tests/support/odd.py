"""A user's operator that gives other rows with odd versions of libraries."""

from __future__ import annotations

import polars as pl

from holdfast import Context, PythonOperator, State
from tests.support.raising import strict

ODD = "odd"
"""Begins the name of a process with such versions (tests/support/raising.py)."""


class Odd(PythonOperator):
    """Counts the rows of each key.

    Args:
        key, number: columns. every: with odd versions, a number that this divides is one larger; 1: each number.
    """

    def __init__(self, key: str, number: str, every: int = 1) -> None:
        self.key, self.number, self.every = key, number, every

    def output(self, fields: dict[str, str]) -> dict[str, str]:
        return {**fields, "nth": "int"}

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        table, places = state.table("seen"), []
        for key in batch[self.key]:
            table.put(key, table.get(key, 0) + 1)
            places.append(table.get(key))
        number = pl.col(self.number)
        if strict([ODD]):
            number = number + (number % self.every == 0).cast(pl.Int64)
        return batch.with_columns(number, nth=pl.Series(places, dtype=pl.Int64))
