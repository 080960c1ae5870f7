"""aggregate without a window: running totals by key.

Source: JOBS "aggregate", PROTOCOL 6 (state access per distinct key of a batch).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from holdfast.schemas.cuts import END_WATERMARK
from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import with_time
from holdfast.services.kernel.codecs.keys import canonical_floats
from holdfast.services.kernel.operators.accumulators import Aggregate, Columns
from holdfast.services.kernel.operators.grouping import Grouping
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Outcome
from holdfast.services.kernel.operators.running import after_each
from holdfast.services.kernel.state.table import Tables

_LATEST = "_latest"


class Totals:
    """`updates`: the newest values of each touched key, a row a key and batch. `final`: one row a key at the end.
    `each`: one row an input row, the values after it, in the order of the input.

    The event time of an update is the largest of its batch, that of a final row the largest of its key; with `each` a
    row has that of its input row.
    """

    def __init__(
        self,
        key: Sequence[str],
        aggregates: Sequence[Aggregate],
        emit: str,
        output: Mapping[str, pl.DataType],
        tables: Tables,
    ) -> None:
        self._final, self._each = emit == "final", emit == "each"
        latest = [Aggregate(_LATEST, "max", pl.col(TIME), pl.Int64(), pl.Int64())] if self._final else []
        self._grouping = Grouping(key, [*aggregates, *latest])
        self._totals = tables.table("totals")
        self._schema = with_time(output)
        self._nothing = self._schema.to_frame()

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        updates = self._update(rows) if rows.height else self._nothing
        if not self._final:
            return Outcome(updates)
        return Outcome(self._all() if context.watermark == END_WATERMARK else self._nothing)

    def _update(self, rows: pl.DataFrame) -> pl.DataFrame:
        keys, partial = self._grouping.reduce(rows, TIME)
        encoded = canonical_keys.encode(keys, self._grouping.key) if self._grouping.key else [b""]
        states = self._totals.get_many(encoded)
        merged = self._grouping.merge(states, partial)
        self._totals.put_many(encoded, self._grouping.states_of(merged))
        if self._final:
            return self._nothing
        if self._each:
            names = [canonical_floats(rows[name]) for name in self._grouping.key]
            return pl.DataFrame([*names, *after_each(self._grouping, rows, TIME, keys, states), rows[TIME]])
        time = pl.Series(TIME, [rows[TIME].max()], dtype=pl.Int64).new_from_index(0, len(encoded))
        return pl.DataFrame([*keys.get_columns(), *self._grouping.values(merged), time])

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
