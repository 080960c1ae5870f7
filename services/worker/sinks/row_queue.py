"""The batches whose rows wait for the next transaction: when they are due, and how many of them it takes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from holdfast.services.worker.sinks.portions import Batch, Portion

MAX_WAITING_BATCHES = 64
MAX_GATHERED_BATCHES, MAX_GATHERED_BYTES = 8_192, 32 * 1024 * 1024
"""Limits of the batches that wait for the next transaction; at a limit the transaction starts early."""


class RowQueue:
    """The waiting batches of one delivery.

    Args:
        interval_ms: time for which rows gather between two transactions; 0 for none.
        portion: limit of a transaction.
        clock_ms: monotonic time.
    """

    def __init__(self, interval_ms: int, portion: Portion, clock_ms: Callable[[], float]) -> None:
        self._interval_ms = interval_ms
        self._portion = portion
        self._clock_ms = clock_ms
        self._waiting: deque[Batch] = deque()
        self._began_ms = -math.inf
        self._bytes = 0
        self._upto = 0
        self._hurried = False

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self._waiting.append(batch)
            self._bytes += batch.size if self._interval_ms else 0

    def clear(self) -> None:
        self._waiting.clear()

    def hurry(self) -> bool:
        """Makes all batches due, because none will follow. False if they were already."""
        before, self._hurried = self._hurried, True
        return not before

    def take(self) -> list[Batch]:
        """Removes the batches of the next transaction; none if the first is not due."""
        if not self._waiting or not self._due():
            return []
        return [self._waiting.popleft() for _ in range(self._count())]

    @property
    def due_ms(self) -> float:
        """The clock time at which the gathered rows are due."""
        return self._began_ms + self._interval_ms if self._interval_ms and self._waiting else math.inf

    def full(self, under_way: bool) -> bool:
        """True if no further batch should be processed. `under_way`: a transaction is."""
        if not self._interval_ms:
            return len(self._waiting) >= MAX_WAITING_BATCHES
        return self._gathered and under_way

    @property
    def _gathered(self) -> bool:
        """True if enough rows wait to start a transaction early."""
        return len(self._waiting) >= MAX_GATHERED_BATCHES or self._bytes >= MAX_GATHERED_BYTES

    def _due(self) -> bool:
        """True if the first batch may be delivered, together with all batches that wait at that time."""
        if not self._interval_ms or self._hurried or self._waiting[0].number <= self._upto:
            return True
        now_ms = self._clock_ms()
        if now_ms < self._began_ms + self._interval_ms and not self._gathered:
            return False
        self._began_ms = now_ms
        self._upto = self._waiting[-1].number
        return True

    def _count(self) -> int:
        """The number of batches of the next transaction."""
        if not self._interval_ms:
            return min(len(self._waiting), self._portion.batches)
        taken = count = 0
        for batch in self._waiting:
            if count and (taken >= self._portion.bytes or not (self._hurried or batch.number <= self._upto)):
                break
            count, taken = count + 1, taken + batch.size
        self._bytes -= taken
        return count
