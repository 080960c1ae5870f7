"""State of an incident of a job, for people: the plan, the density of each query, and the waits.

Source: MECHANISMS R6, docs/decisions/0095. All of it is in the last record about the incident, and in the places of
units.
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
    """Part of one query in an incident. state: runs; restoring: all that it lacks has a slot; or waiting, for slots.

    density: priority for each slot, as the plan had it; None: the query is in no plan, since it has what it needs.
    restored, waiting: units that it needs and that do not run, with a slot and without.
    """

    query: str
    state: str
    priority: int
    density: float | None
    restored: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


class IncidentLine(msgspec.Struct, frozen=True):
    """state: detected, planned, restoring or over. workers: that failed. units: that failed with them.

    order: units that have a slot, in the order in which they are restored. slots: that were free when it was planned;
    beyond: they are no limit any more. line: on which units begin again, at a global checkpoint; 0: each begins at its
    own newest checkpoint. blocking: none is restored before all have a slot.
    retention: topics that may delete what units read again. above: units that go back, too, as they send to those.
    stairs: how many queries were available since when; null: no event tells.
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
    """units: all of the job, as they are now. retention: what their leaders say of the topics that they read."""
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
    """Stairs of the last incident of a job, as events tell it."""
    return stairs(plan.job, list(needed(plan)), events)


def _query(plan: Plan, query: str, lacks: Collection[str], incident: Incident) -> QueryPart:
    densities = dict(incident.waiting) | {step.query: step.density for step in incident.chosen}
    restored = tuple(unit for unit in incident.granted if unit in lacks)
    waiting = tuple(sorted(set(lacks) - set(restored)))
    state = "waiting" if waiting else "restoring" if restored else "runs"
    return QueryPart(query, state, priority(plan, query), densities.get(query), restored=restored, waiting=waiting)


def _runs(one: UnitLine) -> bool:
    return any(copy.role == "primary" and copy.state in RUNS for copy in one.copies)
