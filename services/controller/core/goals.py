"""Goals of the controller for jobs, in `assignments`: a job is to run, or to stop. Recovery does the rest.

Source: PROTOCOL 1 and 8. A goal is one record for a whole generation: `run` once its topics exist, `stop` when it is to
end. The first goal counts, except that a `stop` is final; so a goal that two replicas state is harmless.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from holdfast.schemas.assignments import RUN, STOP, Assignment, Goal, GoalKind, generation_of
from holdfast.schemas.retired import Retired, submitted
from holdfast.services.controller.core.job import Job
from holdfast.services.decisions.standings import Standings

RETIRE_AT = 8
"""Number of jobs that are over, with units in `assignments`, from which a record retires them."""
RETIRE_MS = 1_000
"""Time between two searches for such jobs."""


@dataclass(slots=True)
class Goals:
    """Folds `assignments`, and keeps the statements of this replica that are not read back yet."""

    standings: Standings = field(default_factory=Standings)
    proposed: dict[str, Goal] = field(default_factory=dict)
    retiring: Retired | None = None
    _retire_ms: int = 0

    def read(self, record: Assignment, offset: int) -> None:
        """Takes a record; it replaces the pending statements of this replica about the same job."""
        self.standings.read(offset, record)
        if record.retired is not None:
            self.retiring = None
        for goal in record.goals:
            mine = self.proposed.get(goal.job_key)
            if mine is not None and (goal.kind == STOP or mine.kind == RUN):
                del self.proposed[goal.job_key]

    def missing(self, job: Job, kind: GoalKind, reason: str = "") -> Goal | None:
        """Returns the goal to state now; None if the log has it, or it is on its way there."""
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
        """Drops a goal that was, as far as is known, not appended."""
        if self.proposed.get(goal.job_key) == goal:
            del self.proposed[goal.job_key]

    # -- jobs over ---------------------------------------------------------------------------------------------------

    def to_retire(self, jobs: Collection[Job], upto: int, now_ms: int) -> Retired | None:
        """Returns the record that retires the jobs which are over, so that their units are forgotten; None: not yet.

        upto: offset below which all of `jobs.submit` is read; a job below it that this replica does not hold has left
            `jobs.plans`.
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
        """Generations that `assignments` names and of which no unit has a copy."""
        units = self.standings.assigned.units().items()
        return self.standings.generations() - {generation_of(unit) for unit, change in units if change.copies}

    # -- standing of a job --------------------------------------------------------------------------------------------

    def stop(self, job: Job) -> Goal | None:
        """Returns the stop of the job in the log; None if there is none."""
        standing = self.standings.goal(job.label)
        return standing.goal if standing is not None and standing.goal.kind == STOP else None

    def all_placed(self, job: Job) -> bool:
        last = [self.standings.assigned.of(unit) for unit in job.units]
        return bool(last) and all(change is not None and change.copies for change in last)

    def taken_down(self, job: Job) -> bool:
        """True if a controller of a former version, which stated no goals, has unplaced every unit."""
        last = [self.standings.assigned.of(unit) for unit in job.units]
        goal = self.standings.goal(job.label)
        return goal is None and bool(last) and all(change is not None and not change.copies for change in last)

    def all_stopped(self, job: Job) -> bool:
        """True if every unit was left without copies after the stop, so that no replica that has read it places one
        again.
        """
        goal = self.standings.goal(job.label)
        if goal is None or goal.goal.kind != STOP:
            return False
        last = [self.standings.of_unit(unit) for unit in job.units]
        return all(one is not None and not one.change.copies and one.offset > goal.offset for one in last)
