"""Time of records from their arrival until their results are out, measured at some batches of a job.

Source: MECHANISMS R7. Sources report of their newest batch since when its oldest record waited; units that deliver
report when the batch was out. Times are times of day, in milliseconds; nothing of the data path depends on them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from holdfast.services.worker.core.spent import Spent

MOST_DONE = 512
"""Batches that are out are remembered so long: their arrival is published within 100 ms."""
MOST_WAITING = 64

Arrival = tuple[str, int, int]
"""A unit with source tasks, a batch of its, and since when the oldest record of it waited; 0 and 0: none brings any."""


def arrived_ms(stamp_ms: int | None, before_ms: int | None, cut_ms: int, now_ms: int) -> int:
    """Since when the oldest record of a batch waited: as its stamp says, if that can be true.

    A topic may hold what was recorded years ago, or come from a clock that is wrong: then it came after the last cut.

    Args:
        stamp_ms: of the record; None: it has none. before_ms: of the batch before, as found here; None: of none.
        cut_ms: when the last batch was cut.
    """
    least_ms = cut_ms if before_ms is None else before_ms
    if stamp_ms is not None and least_ms <= stamp_ms <= now_ms:
        return stamp_ms
    return min(cut_ms, now_ms)


class Latency:
    """Latencies of a unit that delivers, at its leader, counted in `spent`: latencies, latency_ms, waits_since_ms."""

    def __init__(self, spent: Spent, batch: int) -> None:
        """batch: the last one that was done when the copy began."""
        self._spent, self._began = spent, batch
        self._out = batch
        self._processed = batch
        self._done: deque[tuple[int, int]] = deque(maxlen=MOST_DONE)
        self._waiting: dict[int, int] = {}
        self._known: dict[str, int] = {}

    def processed(self, batch: int) -> bool:
        """Notes the last batch processed; true if that is news."""
        before, self._processed = self._processed, batch
        return batch > before

    def look(self, out: int, at_ms: int, arrivals: Iterable[Arrival]) -> None:
        """All up to batch `out` has been out since `at_ms`."""
        if out > self._out:
            self._out = out
            self._done.append((out, at_ms))
            for batch in [batch for batch in self._waiting if batch <= out]:
                self._count(at_ms - self._waiting.pop(batch))
        for unit, batch, since_ms in arrivals:
            if self._known.get(unit) != batch:
                self._known[unit] = batch
                self._take(batch, since_ms)
        self._spent.waits_since_ms = min(self._waiting.values(), default=0)

    def stop(self) -> None:
        """Another copy leads: what waits is its business."""
        self._waiting.clear()
        self._spent.waits_since_ms = 0

    def _take(self, batch: int, since_ms: int) -> None:
        if batch > self._out:
            self._waiting[batch] = min(since_ms, self._waiting.get(batch, since_ms))
            if len(self._waiting) > MOST_WAITING:
                for odd in sorted(self._waiting)[1::2]:
                    del self._waiting[odd]
        elif batch > self._began and (at_ms := next((at for done, at in self._done if done >= batch), None)):
            self._count(at_ms - since_ms)

    def _count(self, ms: int) -> None:
        self._spent.latencies += 1
        self._spent.latency_ms += max(0, ms)
