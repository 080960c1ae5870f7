"""How many simulated seconds pass in one second of a core: a job of eight units, five batches a simulated second."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from statistics import median

from tests.simulation.history import simulate
from tests.simulation.jobs import MAX_UNITS, Feed, draw_feed, planned
from tests.simulation.scenario import Scenario

RUN_MS = 30_000
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
    """Of a history without faults."""
    job = planned(SPEC, {"in-s0": 2, "out-0": 1, "out-1": 1})
    assert len(job.units) == MAX_UNITS
    feed: tuple[Feed, ...] = tuple(draw_feed(Random("speed"), job, RUN_MS))
    scenario = Scenario("speed", job, {f"w{i}": "" for i in range(3)}, 1, 1, feed, (), RUN_MS)
    outcomes = [simulate(scenario) for _ in range(times)]
    assert not any(outcome.wrong for outcome in outcomes), outcomes[0].wrong
    return Speed(
        median(one.simulated_ms / 1000 / one.cpu_s for one in outcomes),
        median(one.simulated_ms / 1000 / (one.cpu_s - one.checks_cpu_s) for one in outcomes),
        len(job.units),
    )
