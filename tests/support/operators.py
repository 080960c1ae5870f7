"""Runs an operator over batches, with state in memory, and restores it in the middle when a test wants that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from holdfast.schemas.checkpoints import Entry
from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.plain_values import within_calendar
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Operator, Outcome
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore

Fields = dict[str, str]


def plan(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> OperatorPlan:
    described = catalogue.describe(kind, params, inputs)
    once = inputs[0].once and not inputs[0].windowed
    row_key = [] if once else list(inputs[0].row_key)
    params = {**params, "input_row_key": row_key, "input_windowed": inputs[0].windowed}
    return OperatorPlan("op", kind, 1, ("in",), params, described.fields, described.row_key)


class Harness:
    """An operator over its batches. outcomes: what each gave."""

    def __init__(self, kind: str, params: Mapping[str, Any], *inputs: Stream | Fields) -> None:
        streams = [one if isinstance(one, Stream) else Stream(one) for one in inputs]
        self.plan = plan(kind, params, streams)
        self._fields = [stream.fields for stream in streams]
        self._image, self._names = MemoryImage(), list[str]()
        self._store: StateStore
        self._operator: Operator
        self._open()
        self.batch = 0
        self.watermark = self.promised = NO_WATERMARK
        self.outcomes: list[Outcome] = []

    def _open(self) -> None:
        self._store = StateStore(self._image, self._names)
        self._operator = catalogue.build(self.plan, self._fields, self._store.of_task("op-0"))

    def checkpoint(self) -> list[Entry]:
        """Entries of the delta; they count."""
        capture, delta = self._store.capture(), list[Entry]()
        while piece := capture.piece(100):
            delta += piece
        self._image.apply(delta)
        self._store.settle()
        return delta

    def restore(self) -> None:
        """Restores as after a crash: all that is left is the image and the names of the tables."""
        self.checkpoint()
        self._names = self._store.names
        self._open()

    def entries(self) -> list[tuple[bytes, bytes]]:
        """All that a checkpoint would hold."""
        self.restore()
        return list(self._image.scan(b""))

    def rows(self, slot: int, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        schema = stream_schema(self._fields[slot])
        return pl.DataFrame([{**row} for row in rows], schema=schema)

    def run(self, *inputs: Sequence[Mapping[str, Any]], watermark: int | None = None) -> list[dict[str, Any]]:
        """Runs one batch; the rows that came out."""
        before, self.watermark = self.watermark, max(self.watermark, self.watermark if watermark is None else watermark)
        self.batch += 1
        frames = [self.rows(slot, some) for slot, some in enumerate(inputs)]
        outcome = self._operator.on_batch(frames, BatchContext(self.batch, before, self.watermark))
        assert outcome.rows.schema == stream_schema(self.plan.fields), "rows are of the described schema"
        if all((some[TIME] >= before).all() for some in frames):
            assert (outcome.rows[TIME] >= self.promised).all(), "no row is late for the operator behind"
        self.promised = self.watermark if outcome.watermark is None else outcome.watermark
        self.outcomes.append(outcome)
        return _dicts(outcome.rows)

    def end(self) -> list[dict[str, Any]]:
        """An empty last batch."""
        return self.run(*[[] for _ in self._fields], watermark=END_WATERMARK)


def _dicts(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Python has no time outside the years 1 to 9999: null stands for such, as in what is written."""
    try:
        return rows.to_dicts()
    except (ValueError, OverflowError):
        return within_calendar(rows, rows.schema).to_dicts()


Chooser = Callable[[int], bool]


def without_time(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != TIME} for row in rows]
