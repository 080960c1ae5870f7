"""Incidents, in `assignments`: workers failed together and took units of a job with them; the order of the restores.

Source: MECHANISMS R2, R3, R5 and R6; docs/decisions/0095. An incident is the recovery of one job, from the first such
failure until all of its units run again. Each record states the whole incident, so a reader of the newest one can
continue.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.schemas.decoders import Count, Positive, Whole

Times = Annotated[float, msgspec.Meta(gt=0)]
UnitName = Annotated[str, msgspec.Meta(pattern=r"\A[^@/]+\Z")]


class Place(msgspec.Struct, frozen=True):
    """The worker on which a unit is restored."""

    worker: str
    incarnation: str


class Chosen(msgspec.Struct, frozen=True):
    """A step of the plan: these units are restored for this query, in this order; the query may need others, too.

    query: empty: no query needs the units.
    density: the query's priority per slot when it was chosen.
    places: of each unit, so that two replicas that have heard different workers do not both fill the same slot.
    """

    query: str
    units: tuple[UnitName, ...]
    density: float
    places: tuple[Place, ...] = ()


class Incident(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one incident of a generation of a job. Valid iff `number` is above that of the job's last valid one.

    workers: workers that have failed since it began.
    units: units that belong to it; the others continue.
    planned: true if there is a plan.
    chosen: the units that have a slot, in the order of their restores.
    waiting: the density of each query that waits for slots.
    slots: number of slots that were free.
    beyond: true once no worker came for so long that slots are no limit any more.
    line: the line on which its units begin again, at the newest global checkpoint; 0: each begins at its own newest
        checkpoint.
    blocking: true if no unit is restored before all have a slot.
    over: true if all units run.
    above: units that have not failed and go back on that line, as they send inputs of failed units.
    complete: the newest global checkpoint when it began; -1: not known.
    consumption: CPU usage of units before they failed, as a multiple of the median of the job's units, if it is not 1;
        plans use it.
    """

    job: Annotated[str, msgspec.Meta(pattern=r"\A[^@/\s]+\Z")]
    generation: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,18}-[0-9a-f]{6}\Z")]
    number: Positive
    workers: tuple[str, ...] = ()
    units: tuple[UnitName, ...] = ()
    planned: bool = False
    chosen: tuple[Chosen, ...] = ()
    waiting: dict[str, float] = {}
    slots: Count = 0
    beyond: bool = False
    line: Count = 0
    blocking: bool = False
    over: bool = False
    above: tuple[UnitName, ...] = ()
    complete: Whole = -1
    consumption: dict[UnitName, Times] = {}

    @property
    def job_key(self) -> str:
        """`<job>@<generation>`."""
        return f"{self.job}@{self.generation}"

    @property
    def granted(self) -> tuple[str, ...]:
        """The units that have a slot, in the order of their restores."""
        return tuple(unit for step in self.chosen for unit in step.units)

    @property
    def places(self) -> dict[str, Place]:
        """The places of the units that have a slot."""
        return {unit: place for step in self.chosen for unit, place in zip(step.units, step.places, strict=False)}


class IncidentStanding(msgspec.Struct, frozen=True):
    """The last valid record about an incident of a job, and its offset."""

    offset: Count
    incident: Incident
