"""pace: passes on only the newest of rows that replace each other, once per period of event time.

A row is held until the watermark reaches a multiple of the pace. Then the newest row of each key is passed on, in the
order of the keys. Rows of a batch count before its watermark. The held rows follow from the batches and their
watermarks alone. The last row of each key is the same as without a pace.
Source: JOBS "pace", PROTOCOL 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.job_operators import Pace as PaceSpec
from holdfast.schemas.operator_settings import PaceSettings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.operators.kind import Fields, HeldInput, OperatorKind, Problems, Stream
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Operator, Outcome
from holdfast.services.kernel.operators.remembered import Remembered, Wanted, readable, stored
from holdfast.services.kernel.operators.stored_rows import StoredRows
from holdfast.services.kernel.state.table import Tables

_SECOND_US = 1_000_000


class PaceKind(OperatorKind[PaceSettings]):
    """The kind of operators that pass on fewer rows of the same stream. Rows of one key must reach one task."""

    model = PaceSpec
    made = "rows of earlier batches, too"

    def describe(self, settings: PaceSettings, inputs: Sequence[Stream]) -> Stream:
        problems, given = Problems(), inputs[0]
        if not given.row_key or given.once:
            message = "its rows have no key by which a newer one replaces an older one"
            hint = "read running totals by key, windows with emit: updates, a join with emit: updates, or a top"
            problems.add("input", message, hint)
        problems.check()
        return given

    def build(self, plan: OperatorPlan, settings: PaceSettings, inputs: Sequence[Fields], tables: Tables) -> Operator:
        return Pace(settings.input_row_key, _every_us(settings), schema(inputs[0]), tables)

    def needs(self, settings: PaceSettings) -> tuple[str, ...]:
        return ("input_row_key",)

    def key(self, settings: PaceSettings) -> tuple[str, ...]:
        return settings.input_row_key

    def stateful(self, settings: PaceSettings) -> bool:
        return True

    def split_by(self, settings: PaceSettings) -> Mapping[str, int] | None:
        return {"rows": 0}

    def held(self, settings: PaceSettings, newest_us: int) -> HeldInput:
        return HeldInput(newest_us + _every_us(settings), newest_us)


def _every_us(settings: PaceSettings) -> int:
    return round(settings.pace.every_s * _SECOND_US)


class Pace:
    """A task of pace.

    key: the columns by which rows replace each other; null is a value like any other.
    """

    def __init__(self, key: Sequence[str], every_us: int, columns: pl.Schema, tables: Tables) -> None:
        self._key = list(key)
        self._every = every_us
        self._schema = with_time(columns)
        self._rows = StoredRows(self._schema)
        self._nothing = self._schema.to_frame()
        self._table = tables.table("rows")

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        if rows.height:
            self._hold(rows)
        if not self._due(context):
            return Outcome(self._nothing)
        held = dict(self._table.scan(b""))
        self._table.delete_many(list(held))
        found = self._rows.decode(list(held.values())) if held else self._nothing
        # a row that waited is not older than the windows closed meanwhile
        return Outcome(found.with_columns(pl.max_horizontal(TIME, pl.lit(context.watermark_before)).alias(TIME)))

    def _hold(self, rows: pl.DataFrame) -> None:
        """Holds the last row of each key of the batch."""
        named = rows.with_columns(canonical_keys.canonical_floats(rows[name]) for name in self._key)
        newest = named.unique(self._key, keep="last", maintain_order=True).select(self._schema.names())
        self._table.put_many(canonical_keys.encode(newest, self._key), self._rows.encode(newest))

    def _due(self, context: BatchContext) -> bool:
        """True if the watermark has reached a multiple of the pace, or the stream has ended."""
        before, after = context.watermark_before, context.watermark
        if after == END_WATERMARK:
            return True
        if after in (NO_WATERMARK, before):
            return False
        return before == NO_WATERMARK or after // self._every > before // self._every

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """Rows that wait."""
        for entries in stored(self._table, wanted):
            found = self._rows.decode([row for _, row in entries])
            yield Remembered("rows", found.select(self._key), readable(found.drop(self._key)))
