"""The interface every operator has.

Source: PROTOCOL 0.2 and 4. A batch comes in as one polars DataFrame per input slot, already merged in writer order.
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
    """The batch as the clock sees it.

    watermark_before: after batch - 1; what it has closed is closed for the rows of this batch. watermark: after this
    batch; END_WATERMARK at the end of the stream. Both are microseconds, minima over the operator's inputs.
    raised: where a user's code raised in the batch, as the cut log says; None: it says nothing yet, the task finds out.
    clock_us: the latest time at which a source cut the batch, by the clock of the leader that did; 0: nobody asks.
    answer: what a user's code awaited, as the cut log says; None: it awaits nothing.
    """

    batch: int
    watermark_before: int
    watermark: int
    raised: TaskRaised | None = None
    clock_us: int = 0
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that an operator did not take; reason "late" or an error text.

    slot, place: which input of the batch had it, and where; by them the record that it came of is found.
    """

    reason: str
    row: str
    slot: int = 0
    place: int = -1


@dataclass(frozen=True, slots=True)
class Outcome:
    """rows: the output, canonical in order and content. late: number of late rows; refused: for the dead letters.

    watermark: no older row follows these; None where that is the watermark of the inputs. dropped: event times of the
    late rows that are not refused, by slot. raised: where a user's code raised; None: nowhere.
    """

    rows: pl.DataFrame
    late: int = 0
    refused: tuple[Refused, ...] = ()
    watermark: int | None = None
    dropped: tuple[pl.Series, ...] = ()
    raised: TaskRaised | None = None


class Operator(Protocol):
    """A task's share of an operator. on_batch is called once a batch, in order, also when all inputs are empty."""

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome: ...
