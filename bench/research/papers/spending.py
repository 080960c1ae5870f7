"""Operators with a chosen load and a chosen cost of a capture; each passes its rows on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import polars as pl

from holdfast import Context, PythonOperator, State

MODULE = __name__
_DATA = bytes(2**20)
HASHED = 400
_spared = False


@contextmanager
def spared() -> Iterator[None]:
    """Within it nothing is hashed by this process: the rows of a job can be made again at once."""
    global _spared
    _spared = True
    try:
        yield
    finally:
        _spared = False


def _hash(mib: int) -> None:
    spent = hashlib.sha256()
    for _ in range(0 if _spared else mib):
        spent.update(_DATA)


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


class Part(PythonOperator):
    """A batch changes the next 3,000 of 60,000 entries of its state: little load, and much for a capture to take."""

    output: ClassVar = {"user": "string", "amount": "int"}
    entries, part = 60_000, 3_000

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        first = ctx.batch * self.part
        numbers = range(first, first + self.part)
        state.table("changed").put_many((number % self.entries, ctx.batch) for number in numbers)
        return batch.select("user", "amount", "_time")


class Heavy(Light):
    """Operator with as much to capture, of which a batch costs a hash of 400 MiB beside: a quarter of a second."""

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        _hash(HASHED)
        return super().on_batch(batch, state, ctx)


class Hash(PythonOperator):
    """A batch costs a hash of 64 MiB, 40 ms, and changes nothing."""

    output: ClassVar = {"user": "string", "amount": "int"}
    hashed = 64

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        _hash(self.hashed)
        return batch.select("user", "amount", "_time")
