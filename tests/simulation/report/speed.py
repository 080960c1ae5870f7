"""Simulated seconds that pass in one second of a core: a job of eight units, five batches a simulated second."""

from __future__ import annotations

from cProfile import Profile
from dataclasses import dataclass
from itertools import count
from random import Random
from statistics import median
from types import CodeType

from tests.simulation.checks.checkers import check
from tests.simulation.processes.feeds import Feed, draw_feed
from tests.simulation.processes.hosts import WorkerProcess
from tests.simulation.processes.jobs import MAX_UNITS, planned
from tests.simulation.processes.services import ControllerProcess, ReplicaProcess
from tests.simulation.report.history import simulate
from tests.simulation.scenario import Scenario

RUN_MS, CALLS_MS, WARM_MS = 30_000, 9_000, 1_500
PARTS: dict[str, CodeType] = {
    "workers": WorkerProcess.turn.__code__,
    "recovery": ReplicaProcess.turn.__code__,
    "controller": ControllerProcess.turn.__code__,
    "checks": check.__wrapped__.__code__,  # type: ignore[attr-defined]
}
"""The turns of each kind of process, and what is looked at in the end."""
BATCH_MS = 200
SPEC = {
    "name": "job",
    "keep_cuts": True,
    "sources": {
        "s0": {
            "topic": "in-s0",
            "fields": {"k": "string?", "x": "int", "y": "float?", "at": "timestamp"},
            "event_time": "at",
            "unit": "ms",
            "parallelism": 2,
        }
    },
    "operators": {
        "totals": {"aggregate": {"n": "count()", "x": "sum(x)"}, "key": ["k"], "input": "s0", "parallelism": 3},
        "windows": {
            "aggregate": {"most": "max(x)"},
            "key": ["k"],
            "window": {"size_s": 1},
            "emit": "final",
            "input": "s0",
            "parallelism": 3,
        },
    },
    "queries": {
        "q0": {"input": "totals", "sink": {"topic": "out-0"}},
        "q1": {"input": "windows", "sink": {"topic": "out-1"}},
    },
    "batch_interval_ms": BATCH_MS,
    "fault_tolerance": {"default": {"scheme": "hybrid"}, "checkpoint": {"interval_ms": 500}},
}


@dataclass(frozen=True, slots=True)
class Speed:
    """Simulated seconds a second of a core, the median of some runs. unchecked: without the checks at the end."""

    whole: float
    unchecked: float
    units: int


def measured(times: int = 3) -> Speed:
    """Speed of a history without faults."""
    scenario = _scenario(RUN_MS)
    outcomes = [simulate(scenario) for _ in range(times)]
    assert not any(outcome.wrong for outcome in outcomes), outcomes[0].wrong
    return Speed(
        median(one.simulated_ms / 1000 / one.cpu_s for one in outcomes),
        median(one.simulated_ms / 1000 / (one.cpu_s - one.checks_cpu_s) for one in outcomes),
        len(scenario.job.units),
    )


def calls() -> dict[str, float]:
    """Calls of functions a simulated second, in all and of each part: the same on every machine, busy or not.

    A call takes about 0.2 us; what libraries do within one does not count.
    """
    simulate(_scenario(WARM_MS))
    ticks = Profile(count().__next__, 1.0)
    outcome = ticks.runcall(simulate, _scenario(CALLS_MS))
    assert not outcome.wrong, outcome.wrong
    within = {entry.code: entry.totaltime / 2 for entry in ticks.getstats()}
    found = {"all": within[simulate.__code__]} | {part: within[code] for part, code in PARTS.items()}
    return {part: number / (outcome.simulated_ms / 1000) for part, number in found.items()}


def _scenario(run_ms: int) -> Scenario:
    job = planned(SPEC, {"in-s0": 2, "out-0": 1, "out-1": 1})
    assert len(job.units) == MAX_UNITS
    feed: tuple[Feed, ...] = tuple(draw_feed(Random("speed"), job, run_ms))
    return Scenario("speed", job, {f"w{i}": "" for i in range(3)}, 1, 1, feed, (), run_ms)
