"""aggregate without a window: running totals by key.

Source: JOBS "aggregate", PROTOCOL 6 (state access per distinct key of a batch).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from holdfast.schemas.cuts import END_WATERMARK
from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import with_time
from holdfast.services.kernel.codecs.keys import canonical_floats
from holdfast.services.kernel.operators.accumulators import Aggregate, Columns, as_list
from holdfast.services.kernel.operators.aggregation import Aggregation
from holdfast.services.kernel.operators.grouping import Grouping, State
from holdfast.services.kernel.operators.lifespans import Lifespans
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Outcome
from holdfast.services.kernel.operators.remembered import Remembered, Wanted, readable, stored
from holdfast.services.kernel.operators.running_values import after_each
from holdfast.services.kernel.state.table import Tables

_LATEST = "_latest"


class Totals:
    """A task of running totals.

    `updates` outputs the newest values of each touched key, one row per key and batch, with the largest event time of
    the batch. `final` outputs one row per key at the end, with the largest event time of the key. `each` outputs one
    row per input row, with the values after it and its event time, in the order of the input.

    Args:
        forget_us: the time after the newest row of its key at which a total is forgotten, in microseconds; None: never.
    """

    def __init__(self, made_of: Aggregation, emit: str, forget_us: int | None, tables: Tables) -> None:
        self._final = emit == "final"
        self._each = emit == "each"
        timed = self._final or forget_us is not None
        latest = [Aggregate(_LATEST, "max", pl.col(TIME), pl.Int64(), result=pl.Int64())] if timed else []
        self._grouping = Grouping(made_of.key, [*made_of.aggregates, *latest])
        self._totals = tables.table("totals")
        self._schema = with_time(made_of.output)
        self._names = self._schema.names()
        self._nothing = self._schema.to_frame()
        self._lifespans = None if forget_us is None else Lifespans(made_of.key, forget_us, self._totals, self._newest)

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        if self._lifespans is not None:
            updates = self._living(rows, self._lifespans)
            self._lifespans.end(context.watermark)
        else:
            updates = self._update(rows) if rows.height else self._nothing
        if not self._final:
            return Outcome(updates)
        return Outcome(self._all() if context.watermark == END_WATERMARK else self._nothing)

    def _living(self, rows: pl.DataFrame, lifespans: Lifespans) -> pl.DataFrame:
        """The updates of totals, if some begin again within the batch; with `each` in the order of the rows."""
        if not rows.height:
            return self._nothing
        found, places = [], []
        for part in lifespans.parts(rows):
            self._totals.delete_many(part.begin)
            found.append(self._update(rows[part.at]))
            places.append(part.at)
        updates = pl.concat(found)
        return updates[np.argsort(np.concatenate(places))] if self._each and len(found) > 1 else updates

    def _update(self, rows: pl.DataFrame) -> pl.DataFrame:
        keys, partial = self._grouping.reduce(rows, TIME)
        encoded = canonical_keys.encode(keys, self._grouping.key) if self._grouping.key else [b""]
        states = self._totals.get_many(encoded)
        merged = self._grouping.merge(states, partial)
        self._totals.put_many(encoded, self._grouping.states_of(merged))
        if self._lifespans is not None:
            self._lifespans.note(encoded, as_list(merged[-1]))
        if self._final:
            return self._nothing
        if self._each:
            names = [canonical_floats(rows[name]) for name in self._grouping.key]
            values = after_each(self._grouping, rows, TIME, keys, states)
            return pl.DataFrame([*names, *values, rows[TIME]]).select(self._names)
        time = pl.Series(TIME, [rows[TIME].max()], dtype=pl.Int64).new_from_index(0, len(encoded))
        return pl.DataFrame([*keys.get_columns(), *self._grouping.values(merged), time]).select(self._names)

    def _newest(self, state: State) -> int:
        """The event time of the newest row of a total with a limited life."""
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

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """Yields the totals; with the newest event time if it matters."""
        names = self._grouping.key
        for entries in stored(self._totals, wanted):
            encoded = [key for key, _ in entries]
            keys = canonical_keys.decode(encoded, names, self._schema) if names else pl.DataFrame()
            values = pl.DataFrame(self._grouping.values(self._grouping.columns_of([one for _, one in entries])))
            timed = _LATEST in values.columns
            yield Remembered("totals", keys, readable(values.rename({_LATEST: TIME})) if timed else values)

    def _rows(self, keys: pl.DataFrame, accumulators: Columns) -> pl.DataFrame:
        return pl.DataFrame([*keys.get_columns(), *self._grouping.values(accumulators)])
