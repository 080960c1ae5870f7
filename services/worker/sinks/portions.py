"""Size of a transaction: as much as gets through in good time.

A transaction has five seconds; then the broker ends it as if its writer had died, and fences the writer. On a machine
that has fallen behind the largest transaction is never through by then: all of it is sent again, and what waits grows
(docs/decisions/0116).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from holdfast.schemas.dead_letters import DeadLetter
from holdfast.services.kernel.dataflow.unit import SinkRows

MAX_BATCHES_A_TRANSACTION = 16
MAX_TRANSACTION_BYTES = 8 * 1024 * 1024
"""About, where rows gather."""
QUICK_MS, SLOW_MS = 500.0, 1_500.0
"""After a quicker transaction the next one may hold twice as much, after a slower one half as much."""


class Batch(NamedTuple):
    """Rows and letters of one batch.

    skipped: records that the unit has skipped up to then (precision `gap`).
    passed: by query with tentative results, the watermark of the batch at its sink.
    """

    number: int
    sinks: Sequence[SinkRows]
    dead: Sequence[DeadLetter]
    skipped: int = 0
    passed: Mapping[str, int] = MappingProxyType({})

    @property
    def size(self) -> int:
        """Bytes, about."""
        return sum(int(sink.rows.estimated_size()) for sink in self.sinks) + 1_000 * len(self.dead)


def topics_of(batches: Iterable[Batch]) -> list[str]:
    """Topics to which rows of the batches go."""
    return sorted({one.task.operator.written_topic for batch in batches for one in batch.sinks} - {""})


class Portion:
    """Portion of one copy, whoever holds its transactional id meanwhile. batches: that the next transaction holds at
    most.
    """

    def __init__(self) -> None:
        self.batches = MAX_BATCHES_A_TRANSACTION

    @property
    def bytes(self) -> int:
        """The same where rows gather; one batch goes in any case."""
        return MAX_TRANSACTION_BYTES * self.batches // MAX_BATCHES_A_TRANSACTION

    def through(self, took_ms: float) -> None:
        """A transaction was committed."""
        if took_ms < QUICK_MS:
            self.batches = min(2 * self.batches, MAX_BATCHES_A_TRANSACTION)
        elif took_ms > SLOW_MS:
            self.batches = max(self.batches // 2, 1)

    def failed(self) -> None:
        """A transaction was not committed, as far as anybody knows: the next one is to get through."""
        self.batches = 1
