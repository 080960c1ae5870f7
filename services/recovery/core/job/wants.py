"""Goals of jobs for their units: copies, or none any more, and the order of the units.

Source: PROTOCOL 8. The controller states a goal for a whole job; here it becomes a want for each unit. The table of the
unit (unit/table/switching.py) decides on the way there. A goal of a generation without a plan has no effect.
"""

from __future__ import annotations

from holdfast.schemas.assignments import RUN, Assignment, job_key, job_key_of, unit_key
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.standings import Standings
from holdfast.services.recovery.core.unit.facts.terms import Want


class Wants:
    """The jobs that run; their units keep the order of the plan."""

    def __init__(self) -> None:
        self._units: dict[str, tuple[str, ...]] = {}

    def admit(self, plan: Plan) -> None:
        keys = [unit_key(plan.job, plan.generation, unit.name) for unit in plan.units]
        self._units[job_key(plan.job, plan.generation)] = tuple(keys)

    def end(self, plan: Plan) -> None:
        self._units.pop(job_key(plan.job, plan.generation), None)

    def units(self, job: str) -> tuple[str, ...]:
        """Units of `<job>@<generation>`, in order."""
        return self._units.get(job, ())

    def concerned(self, record: Assignment) -> list[str]:
        """The units of jobs for which a record states a goal or a checkpoint policy."""
        jobs = [goal.job_key for goal in record.goals] + [policy.job_key for policy in record.policies]
        return [unit for job in jobs for unit in self.units(job)]

    def of(self, unit: str, standings: Standings) -> Want | None:
        """Returns the want for the unit; None if its job runs no more or has stated no goal for it."""
        job = job_key_of(unit)
        if job not in self._units:
            return None
        standing = standings.goal(job)
        if standing is None:
            return self._without_goal(unit, standings)
        if standing.goal.kind == RUN:
            return Want(True, standing.offset)
        return Want(False, standing.offset, standing.goal.reason, standing.goal.asked)

    def _without_goal(self, unit: str, standings: Standings) -> Want | None:
        """Returns the want of a unit whose controller, of a former version, wrote no goals: units that it placed are to
        run.

        That controller also removed units itself, and its records named the command; such a unit stays without copies.
        """
        change = standings.assigned.of(unit)
        if change is not None and not change.copies and change.asked >= 0:
            return None
        others = (standings.assigned.of(other) for other in self._units[job_key_of(unit)])
        return Want(True) if any(other is not None and other.copies for other in others) else None

    def jobs(self) -> list[str]:
        return list(self._units)

    def without_copies(self, standings: Standings) -> list[str]:
        """Units that are to have copies and have none."""
        named = [unit for units in list(self._units.values()) for unit in units]
        wants = ((unit, self.of(unit, standings)) for unit in named)
        return [unit for unit, want in wants if want is not None and want.placed and self._unmet(unit, standings)]

    def unmet(self, standings: Standings) -> list[str]:
        """Units that have no copies and are to have some, or the reverse, in their order."""
        of, found = standings.assigned.of, list[str]()
        for job, units in self._units.items():
            goal = standings.goal(job)
            if goal is not None and goal.goal.kind == RUN:
                found += [unit for unit in units if (change := of(unit)) is None or not change.copies]
            else:
                found += [unit for unit in units if self._unmet(unit, standings)]
        return found

    def _unmet(self, unit: str, standings: Standings) -> bool:
        want = self.of(unit, standings)
        if want is None:
            return False
        standing = standings.of_unit(unit)
        copies = standing is not None and bool(standing.change.copies)
        if want.placed:
            return not copies
        return copies or want.undone(-1 if standing is None else standing.offset)
