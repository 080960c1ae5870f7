"""Limits the size of a transaction so that the transaction finishes in time.

A transaction has five seconds. Then the broker aborts it as if its writer had died, and fences the writer. On a slow
machine the largest transaction would never finish: its rows are sent again and the backlog grows (docs/decisions/0116).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from holdfast.schemas.dead_letters import DeadLetter
from holdfast.services.kernel.dataflow.unit import SinkRows

MAX_BATCHES_A_TRANSACTION = 16
MAX_TRANSACTION_BYTES = 8 * 1024 * 1024
"""Approximate limit if rows gather."""
QUICK_MS, SLOW_MS = 500.0, 1_500.0
"""Time below which a transaction doubles the limit of the next one, and time above which it halves the limit."""


class Batch(NamedTuple):
    """Rows and dead letters of one batch.

    Attributes:
        number: number of the batch.
        sinks: rows by sink.
        dead: dead letters.
        skipped: number of records that the unit has skipped so far (precision `gap`).
        passed: watermark of the batch at the sink, by query with tentative results.
    """

    number: int
    sinks: Sequence[SinkRows]
    dead: Sequence[DeadLetter]
    skipped: int = 0
    passed: Mapping[str, int] = MappingProxyType({})

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return sum(int(sink.rows.estimated_size()) for sink in self.sinks) + 1_000 * len(self.dead)


def topics_of(batches: Iterable[Batch]) -> list[str]:
    """The topics that rows of the batches are written to, sorted."""
    return sorted({one.task.operator.written_topic for batch in batches for one in batch.sinks} - {""})


class Portion:
    """The limit of one copy's transactions. It outlives the producers of the copy.

    Attributes:
        batches: most batches of the next transaction.
    """

    def __init__(self) -> None:
        self.batches = MAX_BATCHES_A_TRANSACTION

    @property
    def bytes(self) -> int:
        """The most bytes of the next transaction if rows gather; one batch is always allowed."""
        return MAX_TRANSACTION_BYTES * self.batches // MAX_BATCHES_A_TRANSACTION

    def through(self, took_ms: float) -> None:
        """Adapts the limit after a committed transaction."""
        if took_ms < QUICK_MS:
            self.batches = min(2 * self.batches, MAX_BATCHES_A_TRANSACTION)
        elif took_ms > SLOW_MS:
            self.batches = max(self.batches // 2, 1)

    def failed(self) -> None:
        """Reduces the limit to one batch after a transaction that is not known to be committed."""
        self.batches = 1
