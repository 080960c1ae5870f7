"""Measures the time from the arrival of records until their results are out, for some batches of a job.

Source: MECHANISMS R7. Sources report the arrival of the oldest record of their newest batch; units that deliver report
when the batch was out. Times are times of day, in milliseconds; no result depends on them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from holdfast.services.worker.core.spent import Spent

MOST_DONE = 512
"""Number of batches that are remembered after they were out. Their arrival is published within 100 ms."""
MOST_WAITING = 64

Arrival = tuple[str, int, int]
"""A unit with source tasks, one of its batches, and the arrival time of that batch's oldest record; 0 and 0 without
records."""


def arrived_ms(stamp_ms: int | None, before_ms: int | None, cut_ms: int, now_ms: int) -> int:
    """The arrival time of a batch's oldest record, in milliseconds: its stamp, if the stamp is plausible.

    A topic may hold records from years ago, or records with a wrong clock. Such a record counts as arrived after the
    last cut.

    Args:
        stamp_ms: stamp of the record; None if it has none.
        before_ms: result for the batch before; None if there is none.
        cut_ms: time of the last cut.
        now_ms: the present time.
    """
    least_ms = cut_ms if before_ms is None else before_ms
    if stamp_ms is not None and least_ms <= stamp_ms <= now_ms:
        return stamp_ms
    return min(cut_ms, now_ms)


class Latency:
    """The latencies of a unit that delivers, at its leader, counted in `spent`: latencies, latency_ms,
    waits_since_ms.
    """

    def __init__(self, spent: Spent, batch: int) -> None:
        """Begins behind `batch`, the last batch done when the copy began."""
        self._spent = spent
        self._began = batch
        self._out = batch
        self._processed = batch
        self._done: deque[tuple[int, int]] = deque(maxlen=MOST_DONE)
        self._waiting: dict[int, int] = {}
        self._known: dict[str, int] = {}

    def processed(self, batch: int) -> bool:
        """Notes the last batch processed. True if it is a later one than before."""
        before, self._processed = self._processed, batch
        return batch > before

    def note_out(self, out: int, at_ms: int, arrivals: Iterable[Arrival]) -> None:
        """Notes that all batches up to `out` have been out since `at_ms`, and counts the latencies of batches with a
        known arrival."""
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
        """Drops all waiting batches, because another copy leads now."""
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
