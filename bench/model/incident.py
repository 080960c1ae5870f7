"""An incident as the cores see it: eight of ten workers are lost, others arrive, and queries come back.

What is restored when is decided by the state machine of recovery (recovery/core/job/incident.py) with its plan, which
queries are available by the controller (controller/core/availability.py). The model has what lies between: data are a
fluid, so an operator whose tasks take a share L of their CPU catches up with 1 / L times the speed of its input.
Source: MECHANISMS R2, R6 to R8. Milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.model.hashtags import READS, SLOTS, operators, units
from holdfast.schemas.costs import Costs
from holdfast.schemas.incidents import Incident
from holdfast.services.controller.core.availability import Availability, Leader
from holdfast.services.recovery.core.job.incident import Scene, next_record
from holdfast.services.recovery.core.job.recovery_plan import Query

STEP_MS = 200
CALM_MS = 70_000
"""Time without a failure before the incident: the latency of then is what later ones are compared with."""
LATENCY_MS = 1_000
"""Latency before the failure: batches are long, so that many tasks fit few cores."""
RESTORE_MS = 2_000
LOAD = 0.2
"""Share of the CPU of its task, at any operator."""
PATIENCE_US = 3_600_000_000
G = "1-aaaaaa"
UNITS = tuple(unit for one in READS for unit in units(one))
"""Units that fail: source and parser run on a worker that lives."""


@dataclass(frozen=True, slots=True)
class Look:
    """State at one time after the failure.

    restored: number of queries whose units all run.
    relative: mean latency of these queries, as a multiple of the latency before; 1 while there are none.
    """

    at_ms: int
    restored: int
    available: int
    relative: float


@dataclass(slots=True)
class Outage:
    """The failure and the recovery.

    back: for each query, the time from which it runs again, and its relative latency then.

    Args:
        arrivals_ms: arrivals of workers, after the failure.
        gradual: true to restore queries one by one; false to restore all together, when there are slots for all.
    """

    arrivals_ms: Sequence[int]
    gradual: bool = True
    looks: list[Look] = field(default_factory=list)
    back: dict[str, tuple[int, float]] = field(default_factory=dict)
    _incident: Incident | None = None
    _ready_ms: dict[str, int] = field(default_factory=dict)
    _upto_ms: dict[str, float] = field(default_factory=lambda: dict.fromkeys(READS, 0.0))

    def run(self, until_ms: int) -> Outage:
        """Runs until `until_ms` after the failure."""
        needed = {query: frozenset(unit for one in operators(query) for unit in units(one)) for query in READS}
        watched = Availability(needed, {query: frozenset(units(query)[:1]) for query in READS})
        counted = dict.fromkeys(READS, (0, 0))
        for now_ms in range(-CALM_MS, until_ms + 1, STEP_MS):
            if now_ms == 0:
                counted = dict.fromkeys(READS, (0, 0))
            if now_ms >= 0:
                self._restore(now_ms, needed)
            running = {unit for unit in UNITS if now_ms < 0 or self._ready_ms.get(unit, now_ms + 1) <= now_ms}
            latency_ms = self._advance(now_ms, running)
            for query, ms in latency_ms.items():
                batches, total = counted[query]
                counted[query] = batches + 1, total + round(ms)
                costs = Costs("", latencies=batches + 1, latency_ms=total + round(ms))
                watched.read(units(query)[0], self._leader(now_ms), costs, now_ms + CALM_MS)
            leaders = {unit: self._leader(now_ms) if unit in running else None for unit in UNITS}
            watched.look(leaders, now_ms + CALM_MS)
            if now_ms >= 0:
                self._note(now_ms, latency_ms, sum(one.available for one in watched.states()))
        return self

    def _restore(self, now_ms: int, needed: dict[str, frozenset[str]]) -> None:
        """Restores units: units granted by the incident get their slots at once."""
        queries = {query: Query(of) for query, of in needed.items()}
        everything = frozenset(UNITS)
        while True:
            stranded = everything - self._ready_ms.keys()
            running = frozenset(unit for unit, ready_ms in self._ready_ms.items() if ready_ms <= now_ms)
            there = sum(at_ms <= now_ms for at_ms in self.arrivals_ms)
            scene = Scene(
                "hashtags", G, self._incident, everything, stranded, running, queries,
                workers=("w1", "w2"), together=True, slots=SLOTS * there - len(self._ready_ms), back=not self.gradual,
                gradual=self.gradual, patience_us=PATIENCE_US,
            )  # fmt: skip
            due = next_record(scene)
            if due is None:
                return
            self._incident = due[0]
            self._ready_ms |= {unit: now_ms + RESTORE_MS for unit in self._incident.granted if unit in stranded}

    def _advance(self, now_ms: int, running: set[str]) -> dict[str, float]:
        """Progress of each operator that runs in its input, then age of the results of each query."""
        if now_ms < 0:
            return dict.fromkeys(READS, float(LATENCY_MS))
        for name, reads in READS.items():
            if running.issuperset(units(name)):
                limit_ms = min((self._upto_ms[one] for one in reads if one in READS), default=float(now_ms))
                self._upto_ms[name] = min(self._upto_ms[name] + STEP_MS / LOAD, limit_ms, now_ms)
        whole = (query for query in READS if all(running.issuperset(units(one)) for one in operators(query)))
        return {query: LATENCY_MS + now_ms - self._upto_ms[query] for query in whole}

    def _note(self, now_ms: int, latency_ms: dict[str, float], available: int) -> None:
        relative = {query: ms / LATENCY_MS for query, ms in latency_ms.items()}
        for query, times in relative.items():
            self.back.setdefault(query, (now_ms, times))
        mean = sum(relative.values()) / len(relative) if relative else 1.0
        self.looks.append(Look(now_ms, len(relative), available, mean))

    def _leader(self, now_ms: int) -> Leader:
        return ("old" if now_ms < 0 else "new", "1")


def steps(looks: Sequence[Look], of: str) -> list[int]:
    """The successive values of `available` or `restored`, from its first 0."""
    found: list[int] = []
    values: list[int] = [getattr(look, of) for look in looks]
    for value in values[values.index(0) :]:
        if value and (not found or found[-1] != value):
            found.append(value)
    return found
