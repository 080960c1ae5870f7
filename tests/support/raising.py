"""A user's operator that raises, and of which not every worker has the same version."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holdfast import Context, PythonOperator, State

_here = [""]


class on:
    """Block whose work is done on this worker. A class: the simulation enters one in every turn of a worker."""

    def __init__(self, worker: str) -> None:
        self._worker, self._before = worker, ""

    def __enter__(self) -> None:
        self._before, _here[0] = _here[0], self._worker

    def __exit__(self, *of: object) -> None:
        _here[0] = self._before


def strict(workers: Sequence[str]) -> bool:
    """True if one of these is the worker here."""
    return any(_here[0].startswith(one) for one in workers)


class Fussy(PythonOperator):
    """Numbers the rows of each key, and draws a number for each call.

    Args:
        key, number: columns. bad: raises at a row whose number this divides. worse: on the workers in `stricter` also
            at one that this divides. together: raises for more rows than these, none of which is at fault.
    """

    def __init__(
        self, key: str, number: str, bad: int, worse: int = 0, stricter: Sequence[str] = (), together: int = 0
    ) -> None:
        self.key, self.number, self.bad, self.worse = key, number, bad, worse
        self.stricter, self.together = tuple(stricter), together

    def output(self, fields: dict[str, str]) -> dict[str, str]:
        return {**fields, "nth": "int", "lot": "int"}

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        table, places = state.table("seen"), []
        for key, number in batch.select(self.key, self.number).iter_rows():
            table.put(key, table.get(key, 0) + 1)
            places.append(table.get(key))
            if self._refuses(number):
                raise ValueError(f"{number} is refused")
        if self.together and batch.height > self.together:
            raise MemoryError(f"{batch.height} rows are too many")
        lot = ctx.random.randrange(1_000)
        return batch.with_columns(nth=pl.Series(places), lot=pl.lit(lot))

    def _refuses(self, number: int) -> bool:
        return number % self.bad == 0 or (self.worse > 0 and number % self.worse == 0 and strict(self.stricter))
