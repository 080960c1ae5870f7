"""Distance between batches: as far apart as the job's latency allows, or as the load of the machine asks for.

A batch costs every unit, the log and the sink about the same, however few records it has (see docs/operations.md), so
batches as far apart as the budget allows cost least. Source: MECHANISMS A5.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace

from holdfast.services.worker.core.cutting import Rhythm

DELIVERY_MS = 15.0
"""From the last unit's batch to a reader of the results: a transaction, measured by `bench latency`."""
SAMPLES = 16
"""Number of samples of the time of a batch. Units on other workers publish their progress ten times a second, so a
single sample is up to 100 ms too long; the shortest of so many is about 6 ms too long.
"""
REMEMBERED = 256
"""Batches under way, at most: no source task may be further ahead (see MAX_LEAD_BATCHES)."""
ROOM_MS = 60.0
"""A batch that takes longer waits for a processor, or for a unit that is away: others are not to join it there."""
MOST_MS = 1_000.0
"""Batches of a job without a budget are never further apart by themselves."""
WAITS_MS, WAITS_MOST_MS = 200.0, 200.0
"""A batch that is under way for longer than the first waits for a unit that is away: progress of the others says within
100 ms that a batch is done. Meanwhile batches are at most the second apart, since other queries continue.
"""
SELDOM_MS, OFTEN_MS = 80.0, 40.0
"""Records are read on demand once batches are further apart than the first, until they are closer than the second."""
GAPS = 8
"""Number of batches by which that is judged."""
REST_MS = 2_000.0
"""A time without records after which nobody knows when the next ones come."""


@dataclass(slots=True)
class Spacing:
    """Time between the batches of a job that bring records, as their cuts are read here, or as they are done.

    seldom: they are so far apart that the records of the next one need not be read before it is due.
    """

    seldom: bool = False
    _batch: int = 0
    _last_ms: float = -math.inf
    _gaps_ms: deque[float] = field(default_factory=lambda: deque(maxlen=GAPS))

    def batch(self, batch: int, now_ms: float) -> None:
        """A valid cut with records was read, or a batch done that brought rows: whichever is known here first. Several
        tasks cut the same batch, several copies read each cut, and several units do the batch.
        """
        if batch <= self._batch:
            return
        self._gaps_ms.append(now_ms - self._last_ms)
        self._batch, self._last_ms = batch, now_ms

    def changes(self, now_ms: float) -> bool:
        """True if `seldom` is another one from now on."""
        before = self.seldom
        if now_ms - self._last_ms > REST_MS:
            self.seldom = False
            self._gaps_ms.clear()
        elif len(self._gaps_ms) == GAPS:
            if min(self._gaps_ms) >= SELDOM_MS:
                self.seldom = True
            elif sum(gap < OFTEN_MS for gap in self._gaps_ms) > GAPS // 2:
                self.seldom = False
        return self.seldom != before


@dataclass(slots=True)
class Pace:
    """The rhythm of one source task.

    budget_ms: the job's `latency_ms`; None: there is none.
    stretches: batches are further apart than `least.interval_ms` also where they take longer than the budget, or
        longer than ROOM_MS without one.
    rhythm: as it is now. Until a batch has been through the job, that is `least`.
    """

    least: Rhythm
    budget_ms: float | None
    stretches: bool = False
    rhythm: Rhythm = field(init=False)
    _room_ms: float = field(init=False)
    _under_way: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _took_ms: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def __post_init__(self) -> None:
        self.rhythm, self._room_ms = self.least, max(ROOM_MS, self.budget_ms or 0.0)

    def proposed(self, batch: int, now_ms: float) -> None:
        """A cut of the batch was appended."""
        if self.budget_ms is not None or self.stretches:
            self._under_way.append((batch, now_ms))

    def processed(self, slowest: int, now_ms: float) -> None:
        """Every unit of the job is known to have processed the batch."""
        newest = None
        while self._under_way and self._under_way[0][0] <= slowest:
            newest = self._under_way.popleft()
        if newest is not None:
            self._took_ms.append(now_ms - newest[1])
        waits_ms = now_ms - self._under_way[0][1] if self._under_way else 0.0
        away_ms = waits_ms - self._room_ms - WAITS_MS
        if newest is None and (not self.stretches or away_ms <= 0):
            return
        left_ms = 0.0
        if self.budget_ms is not None and self._took_ms:
            left_ms = self.budget_ms - DELIVERY_MS - min(self._took_ms)
        if self.stretches:
            usual_ms = sorted(self._took_ms)[len(self._took_ms) // 4] if self._took_ms else 0.0
            left_ms = max(left_ms, min(usual_ms - self._room_ms, MOST_MS), min(away_ms, WAITS_MOST_MS))
        interval_ms = max(self.least.interval_ms, int(left_ms))
        if interval_ms != self.rhythm.interval_ms:
            self.rhythm = replace(self.least, interval_ms=interval_ms)
