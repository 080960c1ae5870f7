"""Distance between batches, so that most records become results within the time that the job gives them.

A batch costs every unit, the log and the sink about the same, however few records it has (see docs/operations.md), so
batches as far apart as the budget allows cost least. Source: MECHANISMS A5.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from holdfast.services.worker.core.cutting import Rhythm

DELIVERY_MS = 15.0
"""From the last unit's batch to a reader of the results: a transaction, measured by `bench latency`."""
SAMPLES = 16
"""Number of samples of the time of a batch. Units on other workers publish their progress ten times a second, so a
single
sample is up to 100 ms too long; the shortest of so many is about 6 ms too long.
"""
REMEMBERED = 256
"""Batches under way, at most: no source task may be further ahead (see MAX_LEAD_BATCHES)."""


@dataclass(slots=True)
class Pace:
    """The rhythm of one source task. budget_ms: the job's `latency_ms`; None: a batch every `least.interval_ms`.

    rhythm: as it is now. Until a batch has been through the job, that is `least`.
    """

    least: Rhythm
    budget_ms: float | None
    rhythm: Rhythm = field(init=False)
    _under_way: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _took_ms: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def __post_init__(self) -> None:
        self.rhythm = self.least

    def proposed(self, batch: int, now_ms: float) -> None:
        """A cut of the batch was appended."""
        if self.budget_ms is not None:
            self._under_way.append((batch, now_ms))

    def processed(self, slowest: int, now_ms: float) -> None:
        """Every unit of the job is known to have processed the batch."""
        newest = None
        while self._under_way and self._under_way[0][0] <= slowest:
            newest = self._under_way.popleft()
        if newest is None or self.budget_ms is None:
            return
        self._took_ms.append(now_ms - newest[1])
        left = self.budget_ms - DELIVERY_MS - min(self._took_ms)
        self.rhythm = replace(self.least, interval_ms=max(self.least.interval_ms, int(left)))
