"""The job of the paper's hashtags on ten workers, of which eight fail together (MECHANISMS R8)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from holdfast.schemas.assignments import unit_key
from holdfast.schemas.decided import Id
from holdfast.schemas.incidents import Incident
from holdfast.schemas.plans import Edge, OperatorPlan, Plan, UnitPlan
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import G, World

WINDOWS = [f"o{number}" for number in range(4)]
SUBSETS = [subset for size in (2, 3, 4) for subset in combinations(WINDOWS, size)]
NEEDS = {name: ("parser",) for name in WINDOWS} | {f"o{4 + at}": subset for at, subset in enumerate(SUBSETS)}
"""Of the 15 queries of MECHANISMS R8, what each reads."""


def hashtags(priorities: Mapping[str, int] | None = None, **tolerance: Any) -> Plan:
    """One task of each operator, in a unit of its own."""
    names = ("source", "parser", *NEEDS)
    operators = [OperatorPlan(name, "filter", 1, (), {"filter": "true"}, {}) for name in names]
    operators += [
        OperatorPlan(f"sink-{name}", "sink", 1, (), {"query": name, "topic": name, "partitions": 1}, {})
        for name in NEEDS
    ]
    edges = [Edge("source", "parser", 0, "forward")]
    edges += [Edge(above, name, 0, "forward") for name, reads in NEEDS.items() for above in reads]
    edges += [Edge(name, f"sink-{name}", 0, "forward") for name in NEEDS]
    units = [UnitPlan(name, 0, (name, f"sink-{name}") if name in NEEDS else (name,), 0, "passive") for name in names]
    spec = {
        "fault_tolerance": {"fail_stop_timeout_s": 20, **tolerance},
        "queries": {name: {"priority": (priorities or {}).get(name, 1)} for name in NEEDS},
    }
    return Plan("job", G, Id("c", 1), spec, tuple(operators), tuple(edges), tuple(units), (), {}, 10, {})


def key(unit: str) -> str:
    return unit_key("job", G, unit)


def ten_workers(made: Plan, slots: int = 2) -> World:
    """Source and parser on w0, whose slots they fill; two queries on each of the eight others."""
    workers = [Worker("w0", "z0", slots=2), *(Worker(f"w{n}", f"z{n}", slots=slots) for n in range(1, 9))]
    where = {name: f"w{1 + at // 2}" for at, name in enumerate(NEEDS)} | {"source": "w0", "parser": "w0"}
    return World(*workers, made=made).start(**where).settle()


def kill_eight(world: World) -> World:
    for number in range(1, 9):
        world.kill(f"w{number}")
    return world.run(1)


def arrive(world: World, *names: str, slots: int = 2) -> World:
    for name in names:
        world.add_worker(Worker(name, f"z{name}", slots=slots))
    return world.run(1.5)


def available(world: World) -> list[str]:
    """The queries all of whose units run on workers that live."""

    def runs(unit: str) -> bool:
        worker = world.workers[world.leader_of(key(unit))]
        return (
            worker.alive
            and not worker.stalled
            and key(unit) in worker.copies
            and worker.copies[key(unit)].state == "running"
        )

    needed = {name: {name, *reads, "source", "parser"} for name, reads in NEEDS.items()}
    return [name for name, units in needed.items() if all(map(runs, units))]


def incident(world: World) -> Incident:
    found = world.checked.incident(f"job@{G}")
    assert found is not None
    return found


def told(world: World) -> list[str]:
    return [line for line in world.story if line.startswith("incident")]


def epochs(world: World) -> dict[str, int]:
    return {unit: world.change(unit).epoch for unit in world.units}


def records(world: World) -> list[Incident]:
    return [one for record in world.log for one in record.incidents]
