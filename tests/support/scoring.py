"""A user's operator, as the contract's example names it."""

from __future__ import annotations

import polars as pl

from holdfast import Context, PythonOperator, State


class Score(PythonOperator):
    """A carrier's share of departures more than `threshold` minutes late, so far; one row a record."""

    output = {"carrier": "string", "share": "float"}  # noqa: RUF012 - as users write it

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        seen = state.table("seen")
        carriers = batch["carrier"].unique(maintain_order=True).to_list()
        counts = dict(zip(carriers, seen.get_many(carriers, default=(0, 0)), strict=True))
        shares = []
        for carrier, delay in batch.select("carrier", "dep_delay").iter_rows():
            late, all_of_them = counts[carrier]
            late += delay is not None and delay > self.threshold
            counts[carrier] = (late, all_of_them + 1)
            shares.append(late / (all_of_them + 1))
        seen.put_many(counts)
        return batch.select("carrier", pl.Series("share", shares), "_time")
