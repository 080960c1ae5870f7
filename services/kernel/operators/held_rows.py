"""Rows that wait until the watermark has passed them, and then leave in the order of their event times.

Memory holds them in a few sorted runs, each at least twice as large as the next. So a row is merged about as often as
the number of rows has binary digits, and the leaving rows are the heads of the runs. The state holds the rows of each
batch as one blob, so that a delta has only new rows, and tombstones for rows that left.
"""

from __future__ import annotations

from heapq import heappop, heappush

import polars as pl

from holdfast.services.kernel.codecs.frames import RowCodec
from holdfast.services.kernel.operators.operator import TIME, BatchContext
from holdfast.services.kernel.state.table import Table


class HeldRows:
    """The held rows of one task.

    Args:
        schema: the columns of the rows, with the event time.
        table: a table used only for these rows.
    """

    def __init__(self, schema: pl.Schema, table: Table) -> None:
        self._codec = RowCodec(schema)
        self._table = table
        self._nothing = schema.to_frame()
        self._runs: list[pl.DataFrame] = []
        self._leaving: list[tuple[int, int]] = []

    def load(self, watermark: int) -> None:
        """Reads the state.

        watermark: the watermark of the state; rows before it have left.
        """
        for key, (data,) in self._table.scan(b""):
            rows = self._codec.decode(data)
            heappush(self._leaving, (int(rows[TIME].max()), int.from_bytes(key, "big")))  # type: ignore[arg-type]
            self._enter(rows.filter(rows[TIME] >= watermark))

    def add(self, rows: pl.DataFrame, batch: int) -> None:
        """Adds the rows of a batch; none of them leaves in the same batch."""
        if rows.height:
            self._table.put_many([batch.to_bytes(8, "big")], [(self._codec.encode(rows),)])
            heappush(self._leaving, (int(rows[TIME].max()), batch))  # type: ignore[arg-type]
            self._enter(rows)

    def due(self, rows: pl.DataFrame, context: BatchContext) -> pl.DataFrame:
        """The rows that the watermark has passed, of this batch and of earlier ones; the others wait."""
        before = rows.filter(rows[TIME] < context.watermark)
        if before.height < rows.height:
            self.add(rows.filter(rows[TIME] >= context.watermark), context.batch)
        if context.watermark == context.watermark_before:
            return before
        return pl.concat([self.take(context.watermark), before])

    def rows(self) -> pl.DataFrame:
        """The waiting rows, in the order of their event times."""
        return pl.concat([self._nothing, *self._runs]).sort(TIME, maintain_order=True)

    def take(self, before_us: int) -> pl.DataFrame:
        """Removes and returns the rows before this time."""
        heads, runs = [self._nothing], list[pl.DataFrame]()
        for run in self._runs:
            count = int(run[TIME].search_sorted(before_us, side="left"))
            if count:
                heads.append(run.slice(0, count))
            if count < run.height:
                runs.append(run.slice(count))
        self._runs = runs
        gone = []
        while self._leaving and self._leaving[0][0] < before_us:
            gone.append(heappop(self._leaving)[1].to_bytes(8, "big"))
        if gone:
            self._table.delete_many(sorted(gone))
        return pl.concat(heads)

    def _enter(self, rows: pl.DataFrame) -> None:
        if not rows.height:
            return
        self._runs.append(rows.sort(TIME))
        while len(self._runs) > 1 and self._runs[-2].height < 2 * self._runs[-1].height:
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(pl.concat([before, last]).sort(TIME))
