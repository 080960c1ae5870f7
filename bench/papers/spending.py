"""Operators whose load and whose cost of a capture are chosen: each passes its rows on."""

from __future__ import annotations

import hashlib
from typing import ClassVar

import polars as pl

from holdfast import Context, PythonOperator, State

MODULE = __name__
_DATA = bytes(2**20)
HASHED = 160


class Light(PythonOperator):
    """Little load. A batch changes each of 6,000 entries of its state, which the next capture then takes."""

    output: ClassVar = {"user": "string", "amount": "int"}
    entries = 6_000

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        state.table("changed").put_many((number, ctx.batch) for number in range(self.entries))
        return batch.select("user", "amount", "_time")


class Dear(Light):
    """Twice as much to capture."""

    entries = 2 * Light.entries


class Heavy(Light):
    """As much to capture, and a batch costs a hash of 160 MiB beside: a tenth of a second."""

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        spent = hashlib.sha256()
        for _ in range(HASHED):
            spent.update(_DATA)
        return super().on_batch(batch, state, ctx)
