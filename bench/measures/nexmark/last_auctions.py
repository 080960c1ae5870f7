"""The operator of query 6: the mean price of the last auctions of a seller."""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from holdfast import PythonOperator
from holdfast.services.kernel.operators.user_code import Context
from holdfast.services.kernel.operators.user_state import State

BEFORE = 10
"""Auctions before the newest one that its mean takes in, as the SQL of Nexmark has it."""


class LastAuctions(PythonOperator):
    """A row for each auction that has ended: its seller, and the mean of its price and those before it.

    Auctions end in the order of their last bids, and of their ids among equals.

    State: the newest prices of each seller.
    """

    output: ClassVar[dict[str, str]] = {"seller": "int", "id": "int", "price": "float"}

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        ended = batch.sort("window_end", "id").select("seller", "id", "price", new=True)
        table, sellers = state.table("prices"), ended["seller"].unique(maintain_order=True).to_list()
        kept = pl.DataFrame(
            {"seller": sellers, "price": table.get_many(sellers, [])},
            schema={"seller": pl.Int64, "price": pl.List(pl.Int64)},
        ).explode("price", empty_as_null=False)
        earlier = kept.select("seller", pl.lit(None, pl.Int64).alias("id"), "price", pl.lit(False).alias("new"))
        rows = pl.concat([earlier, ended])
        newest = rows.group_by("seller", maintain_order=True).agg(pl.col("price").tail(BEFORE))
        table.put_many(zip(newest["seller"].to_list(), newest["price"].to_list(), strict=True))
        mean = pl.col("price").rolling_mean(BEFORE + 1, min_samples=1).over("seller")
        return rows.with_columns(mean).filter("new").select("seller", "id", "price")
