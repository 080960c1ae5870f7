"""A user's operator, for jobs with Python code."""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from holdfast import Context, PythonOperator, State


class Changes(PythonOperator):
    """Number of changes of a key's value, and its sum so far: a row for each change."""

    output: ClassVar[dict[str, str]] = {"k": "string", "n": "int", "changes": "int", "total": "int"}

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        seen, rows = state.table("seen"), []
        for key, number in batch.select("k", "n").iter_rows():
            last, changes, total = seen.get(key, (None, 0, 0))
            total += number
            if number != last:
                changes += 1
                rows.append((key, number, changes, total))
            seen.put(key, (number, changes, total))
        return pl.DataFrame(rows, schema=["k", "n", "changes", "total"], orient="row")
