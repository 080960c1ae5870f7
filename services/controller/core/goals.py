"""What the controller wants of a job, as `assignments` has it: that it runs, or that it stops. Recovery does the rest.

Source: PROTOCOL 1 and 8. A goal is one record for a whole generation: `run` once its topics exist, `stop` when it is to
end. The first one counts, but for a `stop`, which is final; so a goal that two replicas state is harmless.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.assignments import RUN, STOP, Assignment, Goal, GoalKind
from services.controller.core.job import Job
from services.kernel.logs.standings import Standings


@dataclass(slots=True)
class Goals:
    """Folds `assignments`, and knows what this replica has stated there and not read back yet."""

    standings: Standings = field(default_factory=Standings)
    proposed: dict[str, Goal] = field(default_factory=dict)

    def read(self, record: Assignment, offset: int) -> None:
        """Takes one record; what it says of a job takes the place of what we stated and have not read back."""
        self.standings.read(offset, record)
        for goal in record.goals:
            mine = self.proposed.get(goal.job_key)
            if mine is not None and (goal.kind == STOP or mine.kind == RUN):
                del self.proposed[goal.job_key]

    def missing(self, job: Job, kind: GoalKind, reason: str = "") -> Goal | None:
        """The goal to be stated now, or None: it stands in the log, or is on its way there."""
        standing, mine = self.standings.goal(job.label), self.proposed.get(job.label)
        known = [one.kind for one in (standing.goal if standing is not None else None, mine) if one is not None]
        if STOP in known or kind in known:
            return None
        if kind == RUN:
            return Goal(job.name, job.generation, RUN)
        return Goal(job.name, job.generation, STOP, reason, job.stop_offset)

    def propose(self, goal: Goal) -> None:
        self.proposed[goal.job_key] = goal

    def withdraw(self, goal: Goal) -> None:
        """It was not appended, as far as anybody knows."""
        if self.proposed.get(goal.job_key) == goal:
            del self.proposed[goal.job_key]

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
