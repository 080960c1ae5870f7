"""State of an incident of a job, for people: the plan, the density of each query, and the waits.

Source: MECHANISMS R6, docs/decisions/0095. The last record about the incident, and the placement of units, hold all of
    it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from holdfast.schemas.events import Event
from holdfast.schemas.incidents import Incident
from holdfast.schemas.plans import Plan
from holdfast.services.kernel.plans.priorities import needed, priority
from holdfast.services.recovery.core.job.incident import phase
from holdfast.services.view.lines import UnitLine
from holdfast.services.view.stairs import Stairs, stairs

RUNS = ("running", "ended")


class QueryPart(msgspec.Struct, frozen=True):
    """Part of one query in an incident.

    state: `runs`; `restoring`, if all missing units have a slot; or `waiting`, for slots.
    density: priority per slot in the plan; None: the query is in no plan, since it has all of its units.
    restored, waiting: needed units that do not run, with a slot and without.
    """

    query: str
    state: str
    priority: int
    density: float | None
    restored: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


class IncidentLine(msgspec.Struct, frozen=True):
    """An incident of a job.

    state: detected, planned, restoring or over.
    workers: workers that failed.
    units: units that failed with them.
    order: units that have a slot, in the order of their restoration.
    slots: number of free slots when the incident was planned.
    beyond: true if slots are no limit any more.
    line: line on which units begin again, at a global checkpoint; 0: each begins at its own newest checkpoint.
    blocking: true if no unit is restored before all units have a slot.
    retention: topics that may delete records that units read again.
    above: units that roll back too, as they send to failed units.
    stairs: numbers of available queries over time; null: no event has them.
    """

    job: str
    generation: str
    number: int
    state: str
    workers: tuple[str, ...]
    units: tuple[str, ...]
    order: tuple[str, ...]
    slots: int
    beyond: bool
    line: int
    blocking: bool
    queries: tuple[QueryPart, ...]
    retention: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    stairs: Stairs | None = None


def incident_line(
    plan: Plan,
    incident: Incident,
    units: Sequence[UnitLine],
    retention: tuple[str, ...] = (),
    climbed: Stairs | None = None,
) -> IncidentLine:
    """Builds the line of an incident.

    Args:
        units: all units of the job, in their present state.
        retention: users' topics at risk, reported by the leaders that read them.
    """
    down = {one.unit for one in units if one.unit in incident.units and not _runs(one)}
    return IncidentLine(
        job=incident.job,
        generation=incident.generation,
        number=incident.number,
        state="over" if incident.over else phase(incident, frozenset(down)).value,
        workers=incident.workers,
        units=incident.units,
        order=incident.granted,
        slots=incident.slots,
        beyond=incident.beyond,
        line=incident.line,
        blocking=incident.blocking,
        queries=tuple(_query(plan, query, lacks & down, incident) for query, lacks in needed(plan).items()),
        retention=retention,
        above=incident.above,
        stairs=climbed,
    )


def climbed(plan: Plan, events: Sequence[Event]) -> Stairs | None:
    """Stairs of the last incident of a job, from events; None if no event has them."""
    return stairs(plan.job, list(needed(plan)), events)


def _query(plan: Plan, query: str, lacks: Collection[str], incident: Incident) -> QueryPart:
    densities = dict(incident.waiting) | {step.query: step.density for step in incident.chosen}
    restored = tuple(unit for unit in incident.granted if unit in lacks)
    waiting = tuple(sorted(set(lacks) - set(restored)))
    state = "waiting" if waiting else "restoring" if restored else "runs"
    return QueryPart(query, state, priority(plan, query), densities.get(query), restored=restored, waiting=waiting)


def _runs(one: UnitLine) -> bool:
    return any(copy.role == "primary" and copy.state in RUNS for copy in one.copies)
