"""Availability of the queries of a job: all units of the query run, and its latency is about that before the failure.

Source: MECHANISMS R7 (Su and Zhou 2017, section 6). The latency of a query is measured where it delivers
(worker/core/latency.py), and reported in heartbeats. During a failure it is compared with the latency before. A failure
lasts from the moment at which a unit of the job has no running leader, or another leader, until every query is
available again. At other times there is no comparison, so a query is available if its units run. Pure; times are
milliseconds of the day.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

from holdfast.schemas.costs import Costs
from holdfast.schemas.plans import QueryState

WINDOW_MS = 10_000
"""Span of the mean latency."""
MOST, LOST = 1.2, 1.5
"""Bounds of the relative latency: below the first, a query becomes available; from the second on, it becomes
unavailable. With a single bound, its state changed several times a minute on a loaded machine.
"""
GRACE_MS = 1_000
"""Time without a report for which a unit still counts as having its leader, since heartbeats may be late."""
SAMPLE_MS, SAMPLES = 1_000, 60
"""Time between two samples of latency while nothing fails, and number of samples whose median is the latency before a
failure."""
SETTLED_MS = 2_000
"""Age from which a sample counts: a newer one may belong to a failure that is not detected yet."""
Leader = tuple[str, str]
"""(worker, incarnation)."""
NEVER_MS = 600_000
"""Time with all units running after which a slow query counts as recovered: its latency is the new normal."""


@dataclass(slots=True)
class _Sink:
    """Reports of a delivering unit's leader: its counters at the last report, and their growth since."""

    leader: Leader = ("", "")
    count: int = 0
    ms: int = 0
    waits_since_ms: int = 0
    grown: deque[tuple[int, int, int]] = field(default_factory=deque)

    def read(self, leader: Leader, costs: Costs, now_ms: int) -> None:
        fresh = leader != self.leader or costs.latencies < self.count
        count, ms = (0, 0) if fresh else (self.count, self.ms)
        if leader != self.leader and not self.leader[0]:
            count, ms = costs.latencies, costs.latency_ms  # counted before this replica read its first report
        if costs.latencies > count:
            self.grown.append((now_ms, costs.latencies - count, max(0, costs.latency_ms - ms)))
        self.leader = leader
        self.count = costs.latencies
        self.ms = costs.latency_ms
        self.waits_since_ms = costs.waits_since_ms

    def mean_ms(self, now_ms: int) -> float | None:
        """Returns the mean latency over the window, with the oldest waiting record if that is later; None without
        any result.
        """
        while self.grown and self.grown[0][0] <= now_ms - WINDOW_MS:
            self.grown.popleft()
        count, ms = sum(n for _, n, _ in self.grown), sum(ms for _, _, ms in self.grown)
        waits_ms = now_ms - self.waits_since_ms if self.waits_since_ms else 0
        if not count:
            return float(waits_ms) if waits_ms else None
        return max(ms / count, (ms + waits_ms) / (count + 1))


@dataclass(slots=True)
class _Query:
    """Measurements of one query.

    units: units that the query needs.
    sinks: those of them that deliver it.
    samples: (time, mean latency), of times without a failure.
    before_ms: latency before this failure.
    latency_ms: present latency.
    runs: true if all its units run.
    back_ms: time since which they run again, if one of them did not run during this failure.
    """

    units: frozenset[str]
    sinks: Mapping[str, _Sink]
    samples: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    before_ms: float | None = None
    latency_ms: float | None = None
    available: bool = False
    runs: bool = False
    since_ms: int = 0
    back_ms: int | None = None

    def restart(self, now_ms: int | None) -> None:
        """Drops the measurements made so far, as a unit of the query is gone or has another leader."""
        self.back_ms = now_ms
        for sink in self.sinks.values():
            sink.grown.clear()

    @property
    def relative(self) -> float | None:
        """The latency as a multiple of the latency before the failure; None if one of them is not known."""
        if self.latency_ms is None or not self.before_ms:
            return None
        return self.latency_ms / self.before_ms


class Availability:
    """Availability of the queries of one job.

    failing: true from a failure until every query is available again.

    Args:
        needed: by query, the units that it needs.
        sinks: by query, those of its units that deliver it.
    """

    def __init__(self, needed: Mapping[str, frozenset[str]], sinks: Mapping[str, frozenset[str]]) -> None:
        self._sinks = {unit: _Sink() for units in sinks.values() for unit in units}
        self._queries = {
            query: _Query(units, {unit: self._sinks[unit] for unit in sorted(sinks[query])})
            for query, units in needed.items()
        }
        self._sampled_ms = 0
        self.failing = False
        self._whole_ms = 0
        self._leaders: dict[str, Leader | None] = {}
        self._heard_ms: dict[str, int] = {}

    def knows(self, states: Iterable[QueryState]) -> None:
        """Takes states that an earlier controller has published: a failure, and the latency before it, may still
        last.
        """
        for one in states:
            query = self._queries.get(one.query)
            if query is None:
                continue
            query.available, query.since_ms = one.available, one.since_ms
            if one.before_ms:
                query.before_ms, self.failing = one.before_ms, True

    def read(self, unit: str, leader: Leader, costs: Costs, now_ms: int) -> None:
        """Takes the costs that the unit's leader, (worker, incarnation), reports."""
        if unit in self._sinks:
            self._sinks[unit].read(leader, costs, now_ms)

    def look(self, leaders: Mapping[str, Leader | None], now_ms: int) -> list[QueryState]:
        """Returns the states whose `available` has changed since the last call.

        leaders: the running leader of every unit; None: there is none.
        """
        before, self._leaders = self._leaders, self._present(leaders, now_ms)
        whole = all(self._leaders.values())
        self._whole_ms = (self._whole_ms or now_ms) if whole else 0
        lost = {unit for unit, leader in before.items() if leader and self._leaders.get(unit) != leader}
        if lost and not self.failing:
            self._fail(now_ms)
        changed = []
        for name, query in self._queries.items():
            query.runs = runs = all(self._leaders.get(unit) for unit in query.units)
            if lost & query.units or (runs and query.back_ms is None):
                query.restart(now_ms if runs else None)
            means = [sink.mean_ms(now_ms) for sink in query.sinks.values()]
            query.latency_ms = max((ms for ms in means if ms is not None), default=None)
            now = runs and not (self.failing and self._slow(query, now_ms))
            if now != query.available or not query.since_ms:
                query.available, query.since_ms = now, now_ms
                changed.append(self._state(name, query))
        if whole and self._over(now_ms - self._whole_ms):
            self.failing = False
            self._sample(now_ms)
        return changed

    def _over(self, whole_ms: int) -> bool:
        """True if the failure is over, so that measurements belong to the time after it.

        whole_ms: time for which all units have run.
        """
        if not self.failing:
            return True
        available = all(query.available for query in self._queries.values())
        return whole_ms >= NEVER_MS or (available and whole_ms >= WINDOW_MS)

    def states(self) -> Iterator[QueryState]:
        for name, query in self._queries.items():
            yield self._state(name, query)

    def _state(self, name: str, query: _Query) -> QueryState:
        return QueryState(
            name,
            query.available,
            query.since_ms,
            _rounded(query.latency_ms, 1),
            before_ms=_rounded(query.before_ms, 1),
            relative=_rounded(query.relative, 3),
            catching_up=query.runs and not query.available,
        )

    def _present(self, leaders: Mapping[str, Leader | None], now_ms: int) -> dict[str, Leader | None]:
        self._heard_ms |= dict.fromkeys((unit for unit, leader in leaders.items() if leader), now_ms)
        late = {unit for unit, at_ms in self._heard_ms.items() if now_ms - at_ms < GRACE_MS}
        return {
            unit: self._leaders.get(unit) if leader is None and unit in late else leader
            for unit, leader in leaders.items()
        }

    def _slow(self, query: _Query, now_ms: int) -> bool:
        """True if the query is slow; without results it is slow until the window is over, if it ever had results."""
        if query.relative is None:
            return query.before_ms is not None and now_ms - (query.back_ms or 0) < WINDOW_MS
        return query.relative >= (LOST if query.available else MOST)

    def _fail(self, now_ms: int) -> None:
        """Begins a failure: from now on, the latency is compared with the latency until now."""
        self.failing, self._whole_ms = True, now_ms if self._whole_ms else 0
        for query in self._queries.values():
            query.before_ms = self._median(query, now_ms)

    def _median(self, query: _Query, now_ms: int) -> float | None:
        settled = [ms for at_ms, ms in query.samples if at_ms <= now_ms - SETTLED_MS]
        return median(settled) if settled else query.before_ms

    def _sample(self, now_ms: int) -> None:
        if now_ms - self._sampled_ms < SAMPLE_MS:
            return
        self._sampled_ms = now_ms
        for query in self._queries.values():
            if query.latency_ms is not None:
                query.samples.append((now_ms, query.latency_ms))
            query.before_ms = self._median(query, now_ms)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
