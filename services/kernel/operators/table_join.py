"""join with a table: each row of a stream is matched with the table's row of its key as of the batch.

Changes of the same batch count first; a later change outputs nothing again. Source: JOBS "join", PROTOCOL 6 (state
access per distinct key of a batch). The cuts ensure that the table is loaded before the first left row arrives
(services/worker/sources/cutter.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from holdfast.schemas.cuts import END_WATERMARK, LOADED_WATERMARK, NO_WATERMARK
from holdfast.services.kernel.codecs import keys
from holdfast.services.kernel.codecs.fields import DELETED, with_time
from holdfast.services.kernel.operators.join_keys import Sides
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Outcome
from holdfast.services.kernel.operators.remembered import Remembered, Wanted, stored
from holdfast.services.kernel.operators.stored_rows import StoredRows
from holdfast.services.kernel.state.table import Tables


class TableJoin:
    """A task of a join with a table.

    inner: left rows whose key has a row; left: all left rows, with nulls; semi and anti: unchanged left rows whose key
    has a row, or has none. Order: that of the left rows.

    Args:
        sides: the right side has DELETED; its columns of `on` are the table's key.
        tables: the state of the task.
    """

    def __init__(self, sides: Sides, tables: Tables) -> None:
        self._left_on = sides.left_on
        self._right_on = sides.right_on
        self._kind = sides.kind
        self._right_names = dict(sides.names)
        self._left_names = list(sides.left)
        self._right = sides.right
        self._table = tables.table("rows")
        # a stored row needs a column, even if the table has only its key
        self._stored = list(sides.names) or self._right_on[:1]
        self._rows = StoredRows(pl.Schema({name: sides.right[name] for name in self._stored}))
        self._nothing = with_time(sides.output).to_frame()

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        left, right = inputs
        if right.height:
            self._change(right)
        rows = self._joined(left) if left.height else self._nothing
        # the left side has ended, the table not yet: operators below get no watermark until both have
        waits = LOADED_WATERMARK <= context.watermark < END_WATERMARK
        return Outcome(rows, watermark=NO_WATERMARK if waits else None)

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """Rows of the table."""
        for entries in stored(self._table, wanted):
            found = keys.decode([key for key, _ in entries], self._right_on, self._right)
            values = self._rows.decode([row for _, row in entries])
            yield Remembered("table", found, values.select(list(self._right_names)))

    def _change(self, changes: pl.DataFrame) -> None:
        """Applies changes; the last change of each key counts; a null is not a key."""
        on = self._right_on
        floats = [keys.canonical_floats(changes[name]) for name in on]
        newest = changes.with_columns(floats).drop_nulls(on).unique(on, keep="last", maintain_order=True)
        deleted = newest[DELETED].fill_null(False)
        rows, gone = newest.filter(~deleted), newest.filter(deleted)
        self._table.put_many(keys.encode(rows, on), self._rows.encode(rows.select(self._stored)))
        self._table.delete_many(keys.encode(gone, on))

    def _joined(self, left: pl.DataFrame) -> pl.DataFrame:
        found, at = self._looked_up(left)
        if self._kind in ("semi", "anti"):
            return left.filter(pl.Series((at >= 0) == (self._kind == "semi")))
        if self._kind == "inner":
            there = at >= 0
            left, at = left.filter(pl.Series(there)), at[there]
        places = pl.Series(at)
        places = places.set(places < 0, None)
        beside = found.select(pl.col(name).gather(places).alias(to) for name, to in self._right_names.items())
        return pl.DataFrame([*left.select(self._left_names).get_columns(), *beside.get_columns(), left[TIME]])

    def _looked_up(self, left: pl.DataFrame) -> tuple[pl.DataFrame, np.ndarray]:
        """Rows of the table, and for each left row the position of its match; negative: none."""
        first, group = keys.groups(left, self._left_on)
        wanted = keys.encode(left.select(self._left_on)[first], self._left_on)
        values = self._table.get_many(wanted)  # null was never put
        there = [index for index, value in enumerate(values) if value is not None]
        at = np.full(len(values), -1, dtype=np.int64)
        at[there] = np.arange(len(there))
        return self._rows.decode([values[index] for index in there]), at[group]
