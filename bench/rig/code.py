"""Operators of users that are measured: as little work for a batch as there is."""

from __future__ import annotations

import polars as pl

from holdfast import Context, PythonOperator, State


class Passing(PythonOperator):
    """Passes rows on unchanged."""

    output = {"user": "string", "amount": "int"}  # noqa: RUF012 - as users write it

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        return batch


class Asking(PythonOperator):
    """The operator with code that awaits answers, which come at once."""

    output = {"user": "string", "amount": "int"}  # noqa: RUF012

    async def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:  # type: ignore[override]
        return batch
