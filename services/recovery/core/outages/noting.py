"""Beginnings and ends of outages of units, for jobs with a query that has tentative results.

An outage begins as soon as no copy of the unit can continue; its record is appended together with the record that
places the unit again. Neither the placement nor the first frame of the new copy, which belongs to the replay, ends the
outage. The outage is over once the unit's leader has processed all batches that any unit of the job had processed
before the failure (MECHANISMS P13), and the newest batch that any unit had processed RECENT_US ago. It is also over
once the unit is to run no more.

The fidelity in a record follows the rates of the time before the first of the open outages, since those are rates
without failure (MECHANISMS P1); if too few heartbeats were read, all streams count alike.

Source: MECHANISMS P4, P12 and P13, docs/decisions/0168.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import structs

from holdfast.schemas.assignments import job_key, job_key_of, unit_key
from holdfast.schemas.heartbeats import LINE, Exit, Heartbeat
from holdfast.schemas.outages import Outage
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.fidelity.loss import of_queries
from holdfast.services.kernel.fidelity.of_job import planned
from holdfast.services.kernel.fidelity.topology import Topology
from holdfast.services.kernel.liveness.detector import Detector
from holdfast.services.kernel.plans.priorities import needed, tentative
from holdfast.services.recovery.core.replication.measured import Measured
from holdfast.services.recovery.core.unit.rules import blame, stranding
from holdfast.services.recovery.core.unit.situation import Situation

RECENT_US = 500_000
"""A unit with a smaller lag behind the newest unit has caught up: the times of heartbeats differ by part of this."""
DOUBT_US = 1_000_000
"""Least time that a unit is out if no record has placed it since. Otherwise, if one replica reads the heartbeats of a
worker and another does not, each replica would undo in every turn the record of the other."""


@dataclass(slots=True)
class _Job:
    """A job with a query that has tentative results.

    topology: the job's streams, with the rates of the time before the open outages.
    units: by key, the names of the units for which outages are recorded.
    all_units: keys of all units of the job.
    reached: times of up to RECENT_US ago, and the newest batch that any unit had processed then.
    proposed: by name, the record that is not read back yet.
    since_us: by name and number of an open outage, the time at which this replica first saw it.
    """

    plan: Plan
    measured: Measured
    topology: Topology
    units: Mapping[str, str]
    all_units: tuple[str, ...]
    reached: deque[tuple[int, int]] = field(default_factory=deque)
    proposed: dict[str, Outage] = field(default_factory=dict)
    since_us: dict[tuple[str, int], int] = field(default_factory=dict)

    def fidelity(self, out: Iterable[str]) -> dict[str, float]:
        """Returns the output fidelity of each query without these units, 0 to 1."""
        alive = self.topology.alive(set(self.topology.units).difference(out))
        found = of_queries(self.topology, alive)
        return {query: round(min(max(value, 0.0), 1.0), 6) for query, value in sorted(found.items())}

    def see(self, newest: int, now_us: int) -> int:
        """Returns the newest batch of RECENT_US ago, or of the first look since the outage began."""
        self.reached.append((now_us, newest))
        while len(self.reached) > 1 and now_us - self.reached[1][0] >= RECENT_US:
            self.reached.popleft()
        return self.reached[0][1]


class Outages:
    """Outages of all jobs that run.

    records: records to append to `assignments`, until the shell takes them.
    news: valid records, until published.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self.records: list[Outage] = []
        self.news: list[Outage] = []

    # -- records ------------------------------------------------------------------------------------------------------

    def admit(self, plan: Plan) -> None:
        asking = [units for query, units in needed(plan).items() if tentative(plan, query)]
        if not asking:
            return
        topology = planned(plan).topology
        names = sorted(frozenset[str]().union(*asking).intersection(topology.units))
        units = {unit_key(plan.job, plan.generation, name): name for name in names}
        every = tuple(unit_key(plan.job, plan.generation, unit.name) for unit in plan.units)
        self._jobs[job_key(plan.job, plan.generation)] = _Job(plan, Measured(plan), topology, units, all_units=every)

    def end(self, job: str) -> None:
        self._jobs.pop(job, None)

    def read(self, beat: Heartbeat, now_us: int) -> None:
        for costs in beat.costs if self._jobs else ():
            if (known := self._jobs.get(job_key_of(costs.unit))) is not None:
                known.measured.read(costs, now_us)

    def decided(self, record: Outage, valid: bool) -> None:
        """Takes a record as read; an invalid record was overtaken by another one."""
        known = self._jobs.get(record.job_key)
        mine = None if known is None else known.proposed.get(record.unit)
        if known is not None and mine is not None:
            overtaken = valid and (mine.number, mine.over) <= (record.number, record.over)
            if overtaken or mine == record:
                del known.proposed[record.unit]
        if valid:
            self.news.append(record)

    def withdrawn(self, record: Outage) -> None:
        """Drops a proposed record that was, as far as is known, not appended."""
        known = self._jobs.get(record.job_key)
        if known is not None and known.proposed.get(record.unit) == record:
            del known.proposed[record.unit]

    def ended(self, record: Exit, assigned: Assigned) -> None:
        """Takes the exit of a worker. If it ended at tentative rows, no unit of the job makes any while these outages
        last.
        """
        for job in {job_key_of(at.unit) for at in record.at if at.what == LINE}:
            known, out = self._jobs.get(job), assigned.out(job)
            if known is not None and not any(one.banned for one in out.values()):
                for name in [one for one in sorted(out) if one not in known.proposed][:1]:
                    self._propose(known, structs.replace(out[name], banned=True))

    # -- records due --------------------------------------------------------------------------------------------------

    def look_at(self, situation: Situation, assigned: Assigned) -> None:
        """Proposes the beginning of an outage if the unit is out; called before a change of the unit is proposed."""
        unit = situation.change.unit
        known = self._jobs.get(job_key_of(unit))
        name = None if known is None else known.units.get(unit)
        if known is None or name is None:
            return
        last = known.proposed.get(name, assigned.outage(unit))
        open = last is not None and not last.over
        if open or blame.deadly(situation) or not stranding.without_leader(situation):
            return
        out = assigned.out(job_key_of(unit))
        if not out and not known.proposed:
            known.topology = planned(known.plan, known.measured.rates()).topology
            known.reached.clear()
        upto = _newest(known, situation.detector)
        number, epoch = 1 if last is None else last.number + 1, situation.change.epoch
        fidelity = known.fidelity({*out, *known.proposed, name})
        self._propose(
            known,
            Outage(known.plan.job, known.plan.generation, name, number, epoch=epoch, upto=upto, fidelity=fidelity),
        )

    def look(
        self,
        assigned: Assigned,
        situation: Callable[[str], Situation | None],
        detector: Detector,
        now_us: int,
    ) -> None:
        """Proposes the ends of the outages that are over; called in each sweep."""
        for key, known in self._jobs.items():
            out = assigned.out(key)
            if not out:
                continue
            numbers = [(name, one.number) for name, one in out.items()]
            known.since_us = {one: known.since_us.get(one, now_us) for one in numbers}
            left, recent = set(out), known.see(_newest(known, detector), now_us)
            for name, one in sorted(out.items()):
                stands = None if name in known.proposed else situation(one.unit_key)
                if stands is None:
                    continue
                doubtful = stands.change.epoch == one.epoch and now_us - known.since_us[name, one.number] < DOUBT_US
                recovered = not doubtful and _recovered(stands, max(one.upto, recent))
                if not recovered and not _runs_no_more(stands):
                    continue
                left.discard(name)
                fidelity = known.fidelity(left)
                self._propose(known, structs.replace(one, epoch=stands.change.epoch, fidelity=fidelity, over=True))

    def _propose(self, known: _Job, record: Outage) -> None:
        known.proposed[record.unit] = record
        self.records.append(record)


def _newest(known: _Job, detector: Detector) -> int:
    """Returns the newest batch that any unit is known to have processed, also a unit that has failed."""
    return max((copy.batch for unit in known.all_units for copy in detector.last_reports(unit)), default=0)


def _recovered(s: Situation, batch: int) -> bool:
    leader = s.change.committer
    report = None if leader is None or s.gone(leader) else s.report(leader)
    if report is None or report.epoch < s.change.epoch:
        return False
    return s.over or (report.state == "running" and report.batch >= batch)


def _runs_no_more(s: Situation) -> bool:
    """True if the unit has ended, its job stops, or it is in quarantine."""
    placed = s.want is not None and s.want.placed
    return s.over or not placed or s.change.deadly is not None
