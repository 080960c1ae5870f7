"""aggregate without a window: running totals by key.

Source: JOBS "aggregate", PROTOCOL 6 (state access per distinct key of a batch).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holdfast.schemas.cuts import END_WATERMARK
from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import with_time
from holdfast.services.kernel.codecs.keys import canonical_floats
from holdfast.services.kernel.operators.accumulators import Aggregate, Columns
from holdfast.services.kernel.operators.aggregation import Aggregation
from holdfast.services.kernel.operators.ends import Ends
from holdfast.services.kernel.operators.grouping import Grouping, State
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Outcome
from holdfast.services.kernel.operators.running import after_each
from holdfast.services.kernel.state.table import Tables

_LATEST = "_latest"


class Totals:
    """`updates`: the newest values of each touched key, a row a key and batch. `final`: one row a key at the end.
    `each`: one row an input row, the values after it, in the order of the input.

    The event time of an update is the largest of its batch, that of a final row the largest of its key; with `each` a
    row has that of its input row.

    Args:
        forget_us: a key is forgotten when the watermark is so far past its newest row; None: never.
    """

    def __init__(self, made_of: Aggregation, emit: str, forget_us: int | None, tables: Tables) -> None:
        self._final, self._each, self._forget_us = emit == "final", emit == "each", forget_us
        timed = self._final or forget_us is not None
        latest = [Aggregate(_LATEST, "max", pl.col(TIME), pl.Int64(), pl.Int64())] if timed else []
        self._grouping = Grouping(made_of.key, [*made_of.aggregates, *latest])
        self._totals = tables.table("totals")
        self._schema = with_time(made_of.output)
        self._names = self._schema.names()
        self._nothing = self._schema.to_frame()
        self._ends: Ends | None = None

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        updates = self._update(rows) if rows.height else self._nothing
        if self._forget_us is not None:
            self._forget(self._forget_us, context.watermark)
        if not self._final:
            return Outcome(updates)
        return Outcome(self._all() if context.watermark == END_WATERMARK else self._nothing)

    def _update(self, rows: pl.DataFrame) -> pl.DataFrame:
        keys, partial = self._grouping.reduce(rows, TIME)
        encoded = canonical_keys.encode(keys, self._grouping.key) if self._grouping.key else [b""]
        states = self._totals.get_many(encoded)
        merged = self._grouping.merge(states, partial)
        self._totals.put_many(encoded, self._grouping.states_of(merged))
        self._note(encoded, merged)
        if self._final:
            return self._nothing
        if self._each:
            names = [canonical_floats(rows[name]) for name in self._grouping.key]
            values = after_each(self._grouping, rows, TIME, keys, states)
            return pl.DataFrame([*names, *values, rows[TIME]]).select(self._names)
        time = pl.Series(TIME, [rows[TIME].max()], dtype=pl.Int64).new_from_index(0, len(encoded))
        return pl.DataFrame([*keys.get_columns(), *self._grouping.values(merged), time]).select(self._names)

    # -- keys are forgotten -------------------------------------------------------------------------------------------

    def _note(self, keys: Sequence[bytes], columns: Columns) -> None:
        """Notes when keys may be forgotten, by the time of their newest row, the last accumulator."""
        if self._forget_us is not None and self._ends is not None:
            for key, latest in zip(keys, columns[-1], strict=True):
                self._ends.note(key, latest + self._forget_us)

    def _forget(self, after_us: int, watermark: int) -> None:
        if self._ends is None:  # read from the state at first use
            self._ends = Ends({key: self._newest(state) + after_us for key, state in self._totals.scan(b"")})
        keys = self._ends.until(watermark)
        newest = [self._newest(state) for state in self._totals.get_many(keys)]
        over = [key for key, at in zip(keys, newest, strict=True) if at + after_us <= watermark]
        self._totals.delete_many(over)
        for key, at in zip(keys, newest, strict=True):
            if at + after_us > watermark:
                self._ends.note(key, at + after_us)

    def _newest(self, state: State | None) -> int:
        """The time of the newest row of a key that is noted."""
        assert state is not None, "a key is noted as long as it has a state"
        return int(self._grouping.columns_of([state])[-1][0])

    def _all(self) -> pl.DataFrame:
        entries = list(self._totals.scan(b""))
        if not entries:
            return self._nothing
        names = self._grouping.key
        keys = canonical_keys.decode([key for key, _ in entries], names, self._schema) if names else pl.DataFrame()
        rows = self._rows(keys, self._grouping.columns_of([state for _, state in entries]))
        rows = rows.rename({_LATEST: TIME}).select(self._schema.names())
        return rows.sort(names, maintain_order=True) if names else rows

    def _rows(self, keys: pl.DataFrame, accumulators: Columns) -> pl.DataFrame:
        return pl.DataFrame([*keys.get_columns(), *self._grouping.values(accumulators)])
