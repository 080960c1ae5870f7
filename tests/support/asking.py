"""A user's operator that awaits answers of a service in this process, which may be away, slow or wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import ClassVar

import polars as pl

from holdfast import Context, PythonOperator, State


class Service:
    """asked: how often, by text. away: so many of the next calls fail. hangs: texts that get no answer.

    wide: so often an answer holds itself. most: calls that were under way at the same time.
    """

    asked: ClassVar[Counter[str]] = Counter()
    away: ClassVar[int] = 0
    hangs: ClassVar[set[str]] = set()
    wide: ClassVar[int] = 1
    most: ClassVar[int] = 0
    _under: ClassVar[int] = 0

    @classmethod
    def begin(cls) -> None:
        cls.asked, cls.away, cls.hangs, cls.wide, cls.most, cls._under = Counter(), 0, set(), 1, 0, 0

    @classmethod
    async def look_up(cls, texts: list[str]) -> list[str]:
        """Numbers each text by how often it was asked for: a second answer is another one."""
        cls._under += 1
        cls.most = max(cls.most, cls._under)
        try:
            await asyncio.sleep(0)
            if cls.away > 0:
                cls.away -= 1
                raise ConnectionError("the service is away")
            if cls.hangs & set(texts):
                await asyncio.Event().wait()
            cls.asked.update(texts)
            return [f"{text}-{cls.asked[text]}" * cls.wide for text in texts]
        finally:
            cls._under -= 1


class Enriched(PythonOperator):
    """Each row with what the service says of its text. column: of the text."""

    def __init__(self, column: str) -> None:
        self.column = column

    def output(self, fields: dict[str, str]) -> dict[str, str]:
        return {**fields, "said": "string"}

    async def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:  # type: ignore[override]
        said = await Service.look_up([str(text) for text in batch[self.column]])
        return batch.with_columns(said=pl.Series(said, dtype=pl.String))


class Unsteady(PythonOperator):
    """Each row with a number that no other call gives; every fifth call fails. column: of a text, for nothing."""

    calls: ClassVar[int] = 0

    def __init__(self, column: str) -> None:
        self.column = column

    def output(self, fields: dict[str, str]) -> dict[str, str]:
        return {**fields, "said": "int"}

    async def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:  # type: ignore[override]
        Unsteady.calls += 1
        if Unsteady.calls % 5 == 0:
            raise ConnectionError("the service is away")
        first = Unsteady.calls * 1_000
        return batch.with_columns(said=pl.int_range(first, first + batch.height, eager=True))


class Stateful(Enriched):
    async def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:  # type: ignore[override]
        state.table("seen")
        return batch
