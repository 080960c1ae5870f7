"""Latencies of the queries of a job: median and tail over the last minute, from counters in heartbeats.

Source: MECHANISMS R7. Heartbeats come ten times a second, and some batches of each second are measured: a heartbeat
    mostly adds one batch, and the mean of several otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from holdfast.schemas.costs import Costs
from holdfast.schemas.plans import Plan

WINDOW_MS = 60_000
"""Age in milliseconds up to which latencies count."""


class QueryLatency(msgspec.Struct, frozen=True):
    """Time from the arrival of the oldest record of a batch until its rows are out, over the last minute.

    batches: number of measured batches.
    p50_ms: median.
    p99_ms: 99th percentile.
    """

    query: str
    batches: int
    p50_ms: float
    p99_ms: float


class Grown(NamedTuple):
    """Growth of the counters between two heartbeats: number of batches, and their mean latency."""

    time_ms: int
    batches: int
    mean_ms: float


class Growth:
    """Growth of one copy's counters over the last minute."""

    def __init__(self) -> None:
        self._grown: deque[Grown] = deque()

    def add(self, time_ms: int, before: Costs, now: Costs) -> None:
        """Adds the growth of a leader's counters; counters that begin again in a new process have not grown."""
        batches = now.latencies - before.latencies
        if batches > 0 and now.leads:
            self._grown.append(Grown(time_ms, batches, max(0, now.latency_ms - before.latency_ms) / batches))
        while self._grown and time_ms - self._grown[0].time_ms > WINDOW_MS:
            self._grown.popleft()

    @property
    def grown(self) -> Iterable[Grown]:
        return self._grown


def of_queries(plan: Plan, growth: Mapping[str, Growth]) -> tuple[QueryLatency, ...]:
    """Latencies of the queries with a measured batch.

    growth: growth of the leader's counters, by unit.
    """
    found = []
    for sink in plan.operators:
        if sink.kind != "sink":
            continue
        units = [unit.name for unit in plan.units if sink.name in unit.operators]
        all_of_it = sorted((one.mean_ms, one.batches) for unit in units if unit in growth for one in growth[unit].grown)
        if all_of_it:
            count = sum(batches for _, batches in all_of_it)
            p50, p99 = (_share(all_of_it, count, share) for share in (0.5, 0.99))
            found.append(QueryLatency(sink.sink.query, count, round(p50, 1), round(p99, 1)))
    return tuple(found)


def _share(ordered: list[tuple[float, int]], count: int, share: float) -> float:
    """The least value that this share of the batches does not exceed."""
    passed = 0
    for value, batches in ordered:
        passed += batches
        if passed >= share * count:
            return value
    return ordered[-1][0]
