"""Sets the distance between batches: as far apart as the job's latency budget allows, or as the load of the machine
needs.

A batch costs every unit, the log and the sink about the same for any number of records (see docs/operations.md), so
batches as far apart as the budget allows cost least. Source: MECHANISMS A5.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace

from holdfast.services.worker.core.cut_rhythm import Rhythm

DELIVERY_MS = 15.0
"""Time from the last unit's batch to a reader of the results, which is one transaction; measured by `bench latency`."""
SAMPLES = 16
"""Number of samples of the time of a batch. Units on other workers publish their progress ten times a second, so a
single sample is up to 100 ms too long; the shortest of 16 is about 6 ms too long."""
REMEMBERED = 256
"""Most batches under way; no source task may be further ahead (see MAX_LEAD_BATCHES)."""
ROOM_MS = 60.0
"""Time of a batch beyond which it waits for a processor or for an absent unit, so that no further batch should join
it.
"""
MOST_MS = 1_000.0
"""Most time between batches of a job without a budget, if the distance grows by load."""
WAITS_MS, WAITS_MOST_MS = 200.0, 200.0
"""Time under way after which a batch waits for an absent unit; and the most time between batches meanwhile. Progress of
the other units arrives within 100 ms, and other queries continue."""
SELDOM_MS, OFTEN_MS = 80.0, 40.0
"""Distance between batches above which records are read on demand, and the distance below which this ends."""
GAPS = 8
"""Number of batches that decide about reading on demand."""
REST_MS = 2_000.0
"""Time without records after which the next records cannot be predicted."""


@dataclass(slots=True)
class Spacing:
    """The time between batches with records, from their cuts that are read here or from their completion.

    Attributes:
        seldom: True if batches are so far apart that records need not be read before the next batch is due.
    """

    seldom: bool = False
    _batch: int = 0
    _last_ms: float = -math.inf
    _gaps_ms: deque[float] = field(default_factory=lambda: deque(maxlen=GAPS))

    def batch(self, batch: int, now_ms: float) -> None:
        """Notes a valid cut with records, or a completed batch with rows, whichever is first here. Several tasks cut a
        batch, several copies read a cut, and several units do a batch; only the first counts."""
        if batch <= self._batch:
            return
        self._gaps_ms.append(now_ms - self._last_ms)
        self._batch = batch
        self._last_ms = now_ms

    def changes(self, now_ms: float) -> bool:
        """Updates `seldom`. True if its value has changed."""
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

    Attributes:
        least: rhythm with the shortest interval.
        budget_ms: `latency_ms` of the job; None without a budget.
        stretches: True if batches may be further apart than `least.interval_ms` when they take longer than the budget,
            or longer than ROOM_MS without one.
        rhythm: the present rhythm; `least` until a batch has passed through the job.
    """

    least: Rhythm
    budget_ms: float | None
    stretches: bool = False
    rhythm: Rhythm = field(init=False)
    _room_ms: float = field(init=False)
    _under_way: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _took_ms: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def __post_init__(self) -> None:
        self.rhythm = self.least
        self._room_ms = max(ROOM_MS, self.budget_ms or 0.0)

    def proposed(self, batch: int, now_ms: float) -> None:
        """Notes that a cut of the batch was appended."""
        if self.budget_ms is not None or self.stretches:
            self._under_way.append((batch, now_ms))

    def processed(self, slowest: int, now_ms: float) -> None:
        """Updates the rhythm. Every unit of the job has processed all batches up to `slowest`."""
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
