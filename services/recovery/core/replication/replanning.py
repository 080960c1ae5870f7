"""Replanning: asks the planner of replicas, proposes its answer as the plan or drops it, and directs units to the plan.

The first plan uses even rates, and is made only once every process of the cluster reads plans. From then on the planner
is asked every few seconds, with the rates of the last minute, and only in calm: no copy is missing, nothing changes or
moves, no incident is open, the job does not stop. Its plan is proposed once it was better by a margin in several
answers in a row, and the cool-down since the last plan is over. While rates move, the mean of a minute lags behind, and
a plan by that mean would soon be replaced, so a plan waits until it is about as good as any at the newest rates. If
units have left a plan so that it is too large, its first units by name count.

The units that follow the newest plan are a function of the log alone. Units that lose their replica go first; units
that gain one wait, in order of their names, until the budget has room; a unit without copies keeps its room. So two
replicas that have read the same log change the same units, one that has read less changes fewer, and the budget is
never exceeded.

Source: MECHANISMS P14, docs/decisions/0146.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from holdfast.schemas import formats
from holdfast.schemas.assignments import ReplicationPlan, job_key, job_key_of, split_job_key, unit_key
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.schemas.retired import submitted
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.fidelity.of_job import budget_share
from holdfast.services.recovery.core.replication.answering import Answer, Question
from holdfast.services.recovery.core.replication.measured import Measured
from holdfast.services.recovery.core.unit.facts.terms import Directed

PACE_US = 5_000_000
COOL_DOWN_US = 60_000_000
MARGIN = 0.05
"""Output fidelity by which another plan must be better."""
LOOKS = 3
"""Number of answers in a row in which another plan must be better."""
REPLICA = "active-standby"
_ACTIVE = (REPLICA, "active-replication")


@dataclass(slots=True)
class _Job:
    """A job with a budget.

    units: names of the planned units, by key.
    base: the scheme of a unit without a replica.
    """

    plan: Plan
    measured: Measured
    share: float
    units: dict[str, str]
    base: str
    asked: int
    asking: Question | None = None
    proposed: ReplicationPlan | None = None
    better: int = 0
    asked_us: int = -PACE_US
    decided_us: int = 0


class Replication:
    """Replication plans as one replica of recovery sees them.

    questions: questions to the planner, until the shell takes them.
    records: plans to append to `assignments`, until the shell takes them.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._directed: dict[str, Directed] = {}
        self.questions: list[Question] = []
        self.records: list[ReplicationPlan] = []

    # -- what comes in ------------------------------------------------------------------------------------------------

    def admit(self, plan: Plan, now_us: int) -> None:
        """Takes a job; its cool-down begins now, since the time of a plan from before this replica's start is
        unknown.
        """
        share, key = budget_share(plan), job_key(plan.job, plan.generation)
        planned = [unit for unit in plan.units if unit.planned]
        if share is None or not planned or planned[0].scheme in _ACTIVE:
            return
        units = {unit_key(plan.job, plan.generation, unit.name): unit.name for unit in planned}
        self._jobs[key] = _Job(
            plan,
            Measured(plan),
            share,
            units,
            base=planned[0].scheme,
            asked=submitted(plan.generation) or 0,
            decided_us=now_us,
        )

    def end(self, job: str) -> None:
        if (known := self._jobs.pop(job, None)) is not None:
            for unit in known.units:
                self._directed.pop(unit, None)

    def read(self, beat: Heartbeat, now_us: int) -> None:
        for costs in beat.costs if self._jobs else ():
            known = self._jobs.get(job_key_of(costs.unit))
            if known is not None:
                known.measured.read(costs, now_us)

    def decided(self, record: ReplicationPlan, valid: bool, now_us: int) -> None:
        """Takes a record as read; an invalid record of this replica was overtaken."""
        known = self._jobs.get(record.job_key)
        if known is None:
            return
        if valid:
            known.decided_us, known.better, known.asking, known.proposed = now_us, 0, None, None
        elif known.proposed == record:
            known.proposed = None

    def withdrawn(self, record: ReplicationPlan) -> None:
        """Drops a proposed record that was, as far as is known, not appended."""
        known = self._jobs.get(record.job_key)
        if known is not None and known.proposed == record:
            known.proposed = None

    def answered(self, answer: Answer, assigned: Assigned, calm: Callable[[], bool], now_us: int) -> None:
        """Proposes the answer's plan if it is worth a change.

        calm: true if all units are at rest now.
        """
        question = answer.question
        known = self._jobs.get(question.job)
        if known is None or known.asking is not question:
            return
        known.asking = None
        present = assigned.replication(question.job)
        if question.number != (0 if present is None else present.number) or known.proposed is not None:
            return
        if question.number:
            better = answer.fidelity >= answer.before + MARGIN and not answer.moving
            if not better or not (_placed(known, assigned) and calm()):
                known.better = 0
                return
            known.better += 1
            if known.better < LOOKS or now_us - known.decided_us < COOL_DOWN_US:
                return
        job, generation = split_job_key(question.job)
        made = ReplicationPlan(
            job,
            generation,
            question.number + 1,
            answer.units,
            fidelity=round(answer.fidelity, 6),
            before=round(answer.before, 6),
        )
        known.proposed = made
        self.records.append(made)

    # -- what follows -------------------------------------------------------------------------------------------------

    def look(
        self, assigned: Assigned, asked_of: Callable[[str], int], calm: Callable[[], bool | None], now_us: int
    ) -> None:
        """Asks the planner if that is due, and directs the units that follow the plans now; called in every sweep.

        asked_of: by unit, the offset of the last request for its scheme.
        calm: true if all units are at rest now; None: a later sweep has the result.
        """
        for key, known in self._jobs.items():
            own = frozenset(name for unit, name in known.units.items() if asked_of(unit) > known.asked)
            self._ask(key, known, own, assigned, calm, now_us)
            self._direct(key, known, own, assigned)

    @property
    def concerned(self) -> Collection[str]:
        """Units that are to follow the plan now."""
        return self._directed

    def directed(self, unit: str) -> Directed | None:
        """Returns the scheme that the plan directs for a unit whose turn it is; None if there is none."""
        return self._directed.get(unit)

    def _ask(
        self,
        key: str,
        known: _Job,
        own: frozenset[str],
        assigned: Assigned,
        calm: Callable[[], bool | None],
        now_us: int,
    ) -> None:
        if known.asking is not None or known.proposed is not None or now_us - known.asked_us < PACE_US:
            return
        if assigned.format < formats.PLANS:
            return
        present, quiet = assigned.replication(key), None
        if present is not None and (quiet := _placed(known, assigned) and calm()) is None:
            return
        known.asked_us = now_us  # the check that all units are at rest takes a while, also if no question follows
        measured = None
        if present is not None:
            if not quiet:
                known.better = 0
                return
            measured = known.measured.spans()
            if measured is None:
                return
        number, units = (0, ()) if present is None else (present.number, present.units)
        known.asking = Question(key, known.plan, known.share, number, present=units, without=own, measured=measured)
        self.questions.append(known.asking)

    def _direct(self, key: str, known: _Job, own: frozenset[str], assigned: Assigned) -> None:
        for unit in known.units:
            self._directed.pop(unit, None)
        plan = assigned.replication(key)
        if plan is None:
            return
        budget = int(known.share * (len(known.units) - len(own)) + 1e-9)
        wanted = set(sorted(set(plan.units) - own)[:budget])
        changes = {unit: assigned.of(unit) for unit, name in known.units.items() if name not in own}
        holding = {unit for unit, change in changes.items() if change is not None and change.scheme in _ACTIVE}
        room = budget - len(holding)
        for unit in sorted(changes):
            change, to_have = changes[unit], known.units[unit] in wanted
            if to_have == (unit in holding):
                continue
            placed = change is not None and bool(change.copies)
            if not to_have and placed:
                self._directed[unit] = Directed(known.base, plan.number, known.asked, plan.fidelity)
            elif to_have and room > 0:
                room -= 1
                if placed:
                    self._directed[unit] = Directed(REPLICA, plan.number, known.asked, plan.fidelity)


def _placed(known: _Job, assigned: Assigned) -> bool:
    """True if every planned unit has copies: none of them waits for a place, and the job does not stop."""
    return all((change := assigned.of(unit)) is not None and bool(change.copies) for unit in known.units)


def holders(plan: Plan, assigned: Assigned) -> Mapping[str, bool]:
    """Returns, by planned unit, true if it has the scheme of a replica that processes; for checkers and people."""
    keys = {unit.name: unit_key(plan.job, plan.generation, unit.name) for unit in plan.units if unit.planned}
    changes = {name: assigned.of(key) for name, key in keys.items()}
    return {name: change is not None and change.scheme in _ACTIVE for name, change in changes.items()}
