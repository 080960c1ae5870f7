"""Latencies of the queries of a job: their median and their tail over the last minute, from counters in heartbeats.

Source: MECHANISMS R7. A heartbeat comes ten times a second, and some batches of each second are measured: what a
heartbeat adds is mostly one batch, and of several it is their mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from holdfast.schemas.costs import Costs
from holdfast.schemas.plans import Plan

WINDOW_MS = 60_000
"""Latencies of so long a time count."""


class QueryLatency(msgspec.Struct, frozen=True):
    """Time from the arrival of the oldest record of a batch until its rows are out, over the last minute.

    batches: that were measured. p50_ms: half of them took no longer; p99_ms: 99 of 100.
    """

    query: str
    batches: int
    p50_ms: float
    p99_ms: float


class Grown(NamedTuple):
    """Growth of the counters between two heartbeats: so many batches, and the mean of them."""

    time_ms: int
    batches: int
    mean_ms: float


class Growth:
    """Growth of one copy's counters over the last minute."""

    def __init__(self) -> None:
        self._grown: deque[Grown] = deque()

    def add(self, time_ms: int, before: Costs, now: Costs) -> None:
        """Counters that a process begins again have not grown."""
        batches = now.latencies - before.latencies
        if batches > 0 and now.leads:
            self._grown.append(Grown(time_ms, batches, max(0, now.latency_ms - before.latency_ms) / batches))
        while self._grown and time_ms - self._grown[0].time_ms > WINDOW_MS:
            self._grown.popleft()

    @property
    def grown(self) -> Iterable[Grown]:
        return self._grown


def of_queries(plan: Plan, growth: Mapping[str, Growth]) -> tuple[QueryLatency, ...]:
    """Latencies of the queries of which something was measured. growth: of the unit's leader, by unit."""
    found = []
    for sink in plan.operators:
        if sink.kind != "sink":
            continue
        units = [unit.name for unit in plan.units if sink.name in unit.operators]
        all_of_it = sorted((one.mean_ms, one.batches) for unit in units if unit in growth for one in growth[unit].grown)
        if all_of_it:
            count = sum(batches for _, batches in all_of_it)
            p50, p99 = (_share(all_of_it, count, share) for share in (0.5, 0.99))
            found.append(QueryLatency(str(sink.params["query"]), count, round(p50, 1), round(p99, 1)))
    return tuple(found)


def _share(ordered: list[tuple[float, int]], count: int, share: float) -> float:
    """The least value that so large a share of them does not exceed."""
    passed = 0
    for value, batches in ordered:
        passed += batches
        if passed >= share * count:
            return value
    return ordered[-1][0]
