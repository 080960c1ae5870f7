"""State that one replica holds about the incidents of all jobs: their terms, recent failures, proposals.

Source: MECHANISMS R2 and R5; docs/decisions/0095. The state of an incident is in `assignments`. This module keeps only
measurements of one replica: times of the last heartbeats, and time without a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from holdfast.schemas.assignments import PRIMARY, Change, Copy, job_key, job_key_of, unit_key
from holdfast.schemas.incidents import Incident, Place
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.buffering import UPSTREAM, buffering, rolls_back
from holdfast.services.kernel.plans.priorities import needed, priority
from holdfast.services.kernel.plans.upstream import upstream
from holdfast.services.recovery.core.job.consumption import Consumption
from holdfast.services.recovery.core.job.incident import AGAIN_US, Scene, next_record
from holdfast.services.recovery.core.job.recovery_plan import Query
from holdfast.services.recovery.core.placement.room import Room
from holdfast.services.recovery.core.unit.facts.terms import Part
from holdfast.services.recovery.core.unit.rules import stranding
from holdfast.services.recovery.core.unit.situation import Situation

GATHER_US = 200_000
"""Time that a unit waits for a free slot while further workers may turn out to have failed; then slots are no limit."""

NEVER = 2**53
"""A line that no unit is on."""


@dataclass(slots=True)
class _Job:
    """A job that runs.

    lost_us: by failed worker, the time of its last heartbeat.
    read_us: time at which the last record was read.
    above: by name, the units that send a unit's inputs; empty if these units retain them.
    stranded_us: by unit, the time since which no copy of it can continue.
    over: names of units that have ended.
    """

    plan: Plan
    queries: Mapping[str, Query]
    most: int
    within_us: int
    buffering: str
    patience_us: int
    above: Mapping[str, frozenset[str]]
    over: set[str] = field(default_factory=set)
    lost_us: dict[str, int] = field(default_factory=dict)
    stranded_us: dict[str, int] = field(default_factory=dict)
    read_us: int = 0
    proposed: Incident | None = None

    @classmethod
    def of(cls, plan: Plan) -> _Job:
        tolerance = plan.settings.fault_tolerance
        queries = {name: Query(units, float(priority(plan, name))) for name, units in needed(plan).items()}
        return cls(
            plan,
            queries,
            tolerance.correlated_failure.workers,
            round(tolerance.correlated_failure.within_s * 1_000_000),
            buffering=buffering(plan),
            patience_us=round(tolerance.fail_stop_timeout_s * 1_000_000),
            above={} if buffering(plan) == UPSTREAM else upstream(plan),
        )

    def key(self, unit: str) -> str:
        return unit_key(self.plan.job, self.plan.generation, unit)

    def names(self, units: Iterable[str]) -> frozenset[str]:
        return frozenset(unit.rpartition("/")[2] for unit in units)

    def back(self, assigned: Assigned) -> bool:
        """True if restored units begin again at the newest global checkpoint, and there is one."""
        return rolls_back(self.plan, assigned)

    def joined(self, name: str, line: int, assigned: Assigned) -> bool:
        """True if the unit has begun again on that line or a later one, or never will."""
        change = assigned.of(self.key(name))
        gone = name in self.over or (change is not None and change.deadly is not None)
        return gone or (change is not None and change.line >= line)

    def forget_failures(self, now_us: int) -> None:
        """Forgets failures from before the window that ends now, unless their units still wait."""
        self.lost_us = {worker: at for worker, at in self.lost_us.items() if now_us - at <= self.within_us}

    @property
    def workers(self) -> list[str]:
        """Failed workers, in the order of their failures."""
        return sorted(self.lost_us, key=lambda worker: (self.lost_us[worker], worker))

    @property
    def together(self) -> bool:
        """True if so many workers failed within one window that the failure is correlated."""
        if len(self.lost_us) < self.most:
            return False
        times = sorted(self.lost_us.values())
        spans = zip(times, times[self.most - 1 :], strict=False)
        return any(last - first <= self.within_us for first, last in spans)


class Incidents:
    """Incidents of all jobs that run. `news`: valid records, until published. `consumption`: CPU usage of the units."""

    def __init__(self) -> None:
        self.consumption = Consumption()
        self._jobs: dict[str, _Job] = {}
        self.news: list[Incident] = []

    # -- folding ------------------------------------------------------------------------------------------------------

    def admit(self, plan: Plan) -> None:
        self._jobs[job_key(plan.job, plan.generation)] = _Job.of(plan)

    def end(self, job: str) -> None:
        if (known := self._jobs.pop(job, None)) is not None:
            self.consumption.forget([known.key(unit.name) for unit in known.plan.units])

    def read(self, incident: Incident, now_us: int) -> list[str]:
        """Takes a valid record; returns the units that it concerns."""
        self.news.append(incident)
        job = self._jobs.get(incident.job_key)
        if job is None:
            return []
        job.read_us, job.proposed = now_us, None
        if incident.over:
            job.lost_us.clear()
        return [job.key(unit) for unit in (*incident.granted, *incident.units)]

    def withdraw(self, incident: Incident) -> None:
        """Drops a proposed record that was not appended or is invalid."""
        job = self._jobs.get(incident.job_key)
        if job is not None and job.proposed == incident:
            job.proposed = None

    def look_at(self, situation: Situation, now_us: int) -> None:
        """Notes a stranded unit, and the workers whose failure has stranded it."""
        unit, job = situation.change.unit, self._jobs.get(job_key_of(situation.change.unit))
        if job is None:
            return
        (job.over.add if situation.over else job.over.discard)(unit.rpartition("/")[2])
        if not stranding.stranded(situation):
            job.stranded_us.pop(unit, None)
            return
        job.stranded_us.setdefault(unit, now_us)
        for copy in situation.change.copies:
            silent_us = max(situation.detector.silent_us(copy.worker), 0)
            job.lost_us.setdefault(copy.worker, now_us - silent_us)

    def rest(self, now_us: int) -> None:
        """Forgets stranded units, as none is stranded any more, and old failures."""
        for job in self._jobs.values():
            job.stranded_us.clear()
            job.forget_failures(now_us)

    # -- rights of units ----------------------------------------------------------------------------------------------

    def part(self, unit: str, assigned: Assigned) -> Part | None:
        """Returns the part of a stranded unit in the incident that it waits for; None if it waits for no incident."""
        key = job_key_of(unit)
        job, incident = self._jobs.get(key), assigned.incident(key)
        if job is None:
            return None
        if incident is None or incident.over:
            return Part() if job.together or job.back(assigned) else None
        name = unit.rpartition("/")[2]
        if name not in incident.granted:
            return Part()
        turn, place, limited = incident.granted.index(name), incident.places.get(name), not incident.beyond
        if not incident.line or not job.back(assigned):
            return Part(turn, 0, place, limited=limited)
        waits = not all(job.joined(one, incident.line, assigned) for one in job.above.get(name, ()))
        return Part(turn, max(incident.line, assigned.line(key)), place, waits, limited=limited)

    def above(self, unit: str) -> list[str]:
        """Returns the units that go back with this one: those that send its inputs, if only sources retain these."""
        job = self._jobs.get(job_key_of(unit))
        if job is None:
            return []
        return [job.key(one) for one in sorted(job.above.get(unit.rpartition("/")[2], ())) if one not in job.over]

    def joins(self, unit: str, assigned: Assigned) -> int:
        """The line on which an unfailed unit is to begin again, once all units above it have; 0: none."""
        key = job_key_of(unit)
        job, incident, name = self._jobs.get(key), assigned.incident(key), unit.rpartition("/")[2]
        if job is None or incident is None or incident.over or name not in incident.above or not job.back(assigned):
            return 0
        due = not job.joined(name, incident.line, assigned)
        ready = all(job.joined(one, incident.line, assigned) for one in job.above.get(name, ()))
        return max(incident.line, assigned.line(key)) if due and ready else 0

    def gathers(self, unit: str, now_us: int) -> bool:
        """True if the unit has been stranded for less than GATHER_US: others may turn out to be stranded, too."""
        job = self._jobs.get(job_key_of(unit))
        return job is not None and now_us - job.stranded_us.get(unit, now_us) < GATHER_US

    def waits(self, assigned: Assigned) -> bool:
        """True if a stranded unit waits for its restore, also a unit whose slot in the last plan is gone."""
        return any(self.part(unit, assigned) is not None for job in self._jobs.values() for unit in job.stranded_us)

    def open(self, job: str, assigned: Assigned) -> bool:
        incident = assigned.incident(job)
        return incident is not None and not incident.over

    def any_open(self, assigned: Assigned) -> bool:
        return any(self.open(job, assigned) for job in self._jobs)

    # -- proposing ----------------------------------------------------------------------------------------------------

    def due(
        self,
        situations: Iterable[Situation],
        assigned: Assigned,
        room: Callable[[Situation], Room],
        busy: Callable[[str], bool],
        heard: bool,
        now_us: int,
    ) -> list[tuple[Incident, str]]:
        """Returns the records to append, each with its line of the story.

        Args:
            situations: of all units that have copies. room: of the workers that could take such a unit.
            busy: true if a change of the unit is on its way.
        """
        found: dict[str, list[Situation]] = {}
        for one in situations:
            self.look_at(one, now_us)
            found.setdefault(job_key_of(one.change.unit), []).append(one)
        records = list[tuple[Incident, str]]()
        for key, job in self._jobs.items():
            units, is_open = found.get(key, []), self.open(key, assigned)
            if not is_open:
                job.forget_failures(now_us)
            if not units or not (job.stranded_us or is_open) or job.proposed is not None:
                continue
            if any(busy(one.change.unit) for one in units):
                continue
            rooms = {one.terms.host: room(one) for one in {one.terms.host: one for one in reversed(units)}.values()}
            for there in rooms.values():
                self._keep_slots(there, assigned, planned=key, now_us=now_us)
            consumed = self.consumption.of([one.change.unit for one in units])
            due = next_record(self._scene(key, job, units, assigned, rooms, heard, now_us, consumed))
            if due is not None:
                job.proposed = _placed(due[0], {one.change.unit: one for one in units}, rooms)
                records.append((job.proposed, due[1]))
        return records

    def _keep_slots(self, room: Room, assigned: Assigned, planned: str, now_us: int) -> None:
        """Takes from the free slots those that are promised to units of other jobs, and to own units that only
        another replica finds stranded: for a moment that replica may be about to restore them there.
        """
        for key, job in self._jobs.items():
            found = job.proposed or assigned.incident(key)
            if found is None or found.over:
                continue
            for unit, place in found.places.items():
                stranded = job.key(unit) in job.stranded_us
                if key == planned:
                    recent = now_us - job.read_us < AGAIN_US
                    waits = recent and not stranded and not _there(assigned.of(job.key(unit)), place)
                else:
                    waits = stranded
                if waits:
                    room.promise(place.worker, place.incarnation)

    @staticmethod
    def _scene(
        key: str,
        job: _Job,
        units: list[Situation],
        assigned: Assigned,
        rooms: Mapping[str, Room],
        heard: bool,
        now_us: int,
        consumed: Mapping[str, float],
    ) -> Scene:
        """Returns the job at this moment, with rooms by kind of worker and CPU usage by unit."""
        incident = assigned.incident(key)
        alive = {beat.worker for beat in units[0].detector.alive()}
        misplaced = (one for one in units if stranding.its_turn(one) and stranding.slot(one) is None)
        line = NEVER if incident is None or incident.over else incident.line
        returned = incident is not None and alive.issuperset(incident.workers)
        return Scene(
            job.plan.job,
            job.plan.generation,
            incident,
            units=job.names(one.change.unit for one in units),
            stranded=job.names(one.change.unit for one in units if stranding.stranded(one)),
            running=job.names(one.change.unit for one in units if one.runs),
            queries=job.queries,
            workers=tuple(job.workers),
            together=job.together,
            slots=rooms[""].slots if "" in rooms else 0,
            drivers=sum(room.slots for kind, room in rooms.items() if kind),
            hosted=job.names(one.change.unit for one in units if one.terms.host),
            heard=heard,
            age_us=now_us - job.read_us,
            patience_us=job.patience_us,
            back=job.back(assigned),
            gradual=job.buffering == "adaptive",
            line=assigned.line(key) + 1,
            above=job.above,
            joined=frozenset(name for name in job.above if job.joined(name, line, assigned)),
            complete=assigned.complete(key),
            returned=returned,
            consumption={unit.rpartition("/")[2]: times for unit, times in consumed.items()},
            misplaced=job.names(one.change.unit for one in misplaced if rooms[one.terms.host].workers),
        )


def _there(change: Change | None, place: Place) -> bool:
    """True if the unit has a copy in that place."""
    copies = () if change is None else change.copies
    return any((copy.worker, copy.incarnation) == (place.worker, place.incarnation) for copy in copies)


def _placed(record: Incident, units: Mapping[str, Situation], rooms: Mapping[str, Room]) -> Incident:
    """Returns the record with a place for each unit that has a slot."""
    steps = []
    for step in record.chosen:
        found_units = (units[unit_key(record.job, record.generation, unit)] for unit in step.units)
        found = tuple(_place(one, rooms[one.terms.host], record.beyond) for one in found_units)
        steps.append(msgspec.structs.replace(step, places=found))
    return msgspec.structs.replace(record, chosen=tuple(steps))


def _place(one: Situation, room: Room, beyond: bool) -> Place:
    """Returns the place with the most room, and takes it; an empty place if no worker can take the unit."""
    unit, others = one.change.unit, stranding.unequal_hosts(one)
    found = room.for_primary(unit, [*others, *stranding.silent_hosts(one)], slots=not beyond)
    found = found or room.for_primary(unit, others, slots=not beyond)
    if found is None:
        return Place("", "")
    copies = (Copy(found.worker, found.incarnation, PRIMARY),)
    room.leave(one.change)
    room.enter(msgspec.structs.replace(one.change, copies=copies))
    return Place(found.worker, found.incarnation)
