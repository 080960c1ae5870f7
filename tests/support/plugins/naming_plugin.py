"""A user's code that asks a service, which gives each row another answer each time."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import polars as pl

from holdfast import PythonOperator


class Named(PythonOperator):
    output = {"id": "int", "name": "string"}  # noqa: RUF012 - as users write it

    async def on_batch(self, batch: pl.DataFrame, state: Any, ctx: Any) -> pl.DataFrame:  # type: ignore[override]
        await asyncio.sleep(0.01)
        return batch.select("id", "_time").with_columns(name=pl.Series([uuid.uuid4().hex for _ in batch["id"]]))
