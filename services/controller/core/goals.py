"""Goals of the controller for jobs, in `assignments`: a job is to run, or to stop. Recovery does the rest.

Source: PROTOCOL 1 and 8. A goal is one record for a whole generation: `run` once its topics exist, `stop` when it is to
end. The first one counts, but for a `stop`, which is final; so a goal that two replicas state is harmless.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from holdfast.schemas.assignments import RUN, STOP, Assignment, Goal, GoalKind, generation_of
from holdfast.schemas.retired import Retired, submitted
from holdfast.services.controller.core.job import Job
from holdfast.services.decisions.standings import Standings

RETIRE_AT = 8
"""Jobs that are over and of which `assignments` still has units: so many make one record that retires them."""
RETIRE_MS = 1_000
"""Between two looks for them."""


@dataclass(slots=True)
class Goals:
    """Folds `assignments`, and knows what this replica has stated there and not read back yet."""

    standings: Standings = field(default_factory=Standings)
    proposed: dict[str, Goal] = field(default_factory=dict)
    retiring: Retired | None = None
    _retire_ms: int = 0

    def read(self, record: Assignment, offset: int) -> None:
        """Takes one record; what it says of a job takes the place of what we stated and have not read back."""
        self.standings.read(offset, record)
        if record.retired is not None:
            self.retiring = None
        for goal in record.goals:
            mine = self.proposed.get(goal.job_key)
            if mine is not None and (goal.kind == STOP or mine.kind == RUN):
                del self.proposed[goal.job_key]

    def missing(self, job: Job, kind: GoalKind, reason: str = "") -> Goal | None:
        """The goal to be stated now, or None: it stands in the log, or is on its way there."""
        standing, mine = self.standings.goal(job.label), self.proposed.get(job.label)
        known = [one.kind for one in (standing.goal if standing is not None else None, mine) if one is not None]
        if STOP in known or kind in known or self.standings.retired(job.generation):
            return None
        if kind == RUN:
            return Goal(job.name, job.generation, RUN)
        return Goal(job.name, job.generation, STOP, reason, asked=job.stop_offset)

    def propose(self, goal: Goal) -> None:
        self.proposed[goal.job_key] = goal

    def withdraw(self, goal: Goal) -> None:
        """Takes back a goal that was not appended, as far as anybody knows."""
        if self.proposed.get(goal.job_key) == goal:
            del self.proposed[goal.job_key]

    # -- what is over ------------------------------------------------------------------------------------------------

    def to_retire(self, jobs: Collection[Job], upto: int, now_ms: int) -> Retired | None:
        """Jobs that are over and to be retired now, so that their units are forgotten; None: nothing yet.

        upto: all of `jobs.submit` is read below: a job that this replica does not know there has left `jobs.plans`.
        """
        if self.retiring is not None or now_ms - self._retire_ms < RETIRE_MS:
            return None
        self._retire_ms = now_ms
        below = min((job.offset for job in jobs if job.undecided), default=upto)
        live = {job.generation for job in jobs if not job.over}
        over = [offset for g in self._unplaced() - live if (offset := submitted(g)) is not None and offset < below]
        if len(over) < RETIRE_AT:
            return None
        kept = (job.generation for job in jobs if not job.over and job.offset < below)
        return Retired(below, tuple(sorted(kept)))

    def _unplaced(self) -> set[str]:
        """Generations of which `assignments` knows something, and no unit has a copy."""
        units = self.standings.assigned.units().items()
        return self.standings.generations() - {generation_of(unit) for unit, change in units if change.copies}

    # -- where a job stands -------------------------------------------------------------------------------------------

    def stop(self, job: Job) -> Goal | None:
        """The stop that stands in the log; None: nobody has stated one."""
        standing = self.standings.goal(job.label)
        return standing.goal if standing is not None and standing.goal.kind == STOP else None

    def all_placed(self, job: Job) -> bool:
        last = [self.standings.assigned.of(unit) for unit in job.units]
        return bool(last) and all(change is not None and change.copies for change in last)

    def taken_down(self, job: Job) -> bool:
        """A controller of a former version, which stated no goals, has unplaced every unit."""
        last = [self.standings.assigned.of(unit) for unit in job.units]
        goal = self.standings.goal(job.label)
        return goal is None and bool(last) and all(change is not None and not change.copies for change in last)

    def all_stopped(self, job: Job) -> bool:
        """Behind the stop every unit was left without copies: nobody who has read that places one again."""
        goal = self.standings.goal(job.label)
        if goal is None or goal.goal.kind != STOP:
            return False
        last = [self.standings.of_unit(unit) for unit in job.units]
        return all(one is not None and not one.change.copies and one.offset > goal.offset for one in last)
