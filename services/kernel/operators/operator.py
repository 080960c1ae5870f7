"""The interface of every operator.

Source: PROTOCOL 0.2 and 4. A batch arrives as one polars DataFrame per input slot, already merged in writer order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from holdfast.schemas.answers import Answer
from holdfast.schemas.cuts import TaskRaised
from holdfast.services.kernel.codecs.fields import TIME

__all__ = ["TIME", "BatchContext", "Operator", "Outcome", "Refused"]


@dataclass(frozen=True, slots=True)
class BatchContext:
    """The times of a batch, and the decisions of the cut log about it.

    batch: the batch number.
    watermark_before: the watermark after batch - 1, microseconds; closed windows are closed for this batch.
    watermark: the watermark after this batch, microseconds; END_WATERMARK at the end of the stream. Both are minima
    over the operator's inputs.
    raised: the rows at which users' code raised, by the cut log; None: not decided yet, the task finds them.
    clock_us: the latest time at which a source cut the batch, by the clock of its leader; 0: no operator uses it.
    answer: the results that users' code awaited, by the cut log; None: it awaits nothing.
    """

    batch: int
    watermark_before: int
    watermark: int
    raised: TaskRaised | None = None
    clock_us: int = 0
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that an operator refused.

    reason: "late" or an error text.
    slot: the input of the batch with the row.
    place: the row's position in the input, by which its source record is found.
    """

    reason: str
    row: str
    slot: int = 0
    place: int = -1


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a batch.

    rows: the output, canonical in order and content.
    late: the number of late rows.
    refused: rows for the dead letters.
    watermark: no later row is older; None: the watermark of the inputs.
    dropped: by slot, the event times of late rows that are not refused.
    raised: the rows at which users' code raised; None: nowhere.
    """

    rows: pl.DataFrame
    late: int = 0
    refused: tuple[Refused, ...] = ()
    watermark: int | None = None
    dropped: tuple[pl.Series, ...] = ()
    raised: TaskRaised | None = None


class Operator(Protocol):
    """A task's share of an operator. on_batch is called once per batch, in order, also if all inputs are empty."""

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome: ...
