"""Next step of a job's life, as the logs call for it, and the action for each deed."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import asdict

from holdfast.schemas.plans import Ended
from holdfast.schemas.savepoints import replaced_by
from holdfast.services.controller.core.actions import (
    Action,
    AppendControl,
    AppendDecision,
    CreateTopics,
    DeleteTopics,
    Draft,
    FenceIds,
)
from holdfast.services.controller.core.fleet import Fleet
from holdfast.services.controller.core.goals import Goals
from holdfast.services.controller.core.job import Job
from holdfast.services.controller.core.life import PLACED, Deed, Phase, Step
from holdfast.services.decisions.decided import Author

AFTER: dict[type[Action], Step] = {
    CreateTopics: Step.CREATED,
    FenceIds: Step.FENCED,
    DeleteTopics: Step.DELETED,
}
"""Step that follows a completed action; a proposal counts only once it is read back."""


def due(job: Job, jobs: Iterable[Job], goals: Goals, fleet: Fleet) -> Step | None:
    """Returns the step that the logs call for, or None."""
    phase = job.life.phase
    if phase is Phase.SUBMITTED:
        return Step.TURN_CAME if job.value is not None and _has_turn(job, jobs) else None
    if (phase is Phase.ADMITTED or phase in PLACED) and _to_stop(job, goals):
        return Step.STOP_ASKED
    if phase is Phase.ADMITTED:
        return Step.CLEARED
    if phase is Phase.PLACING and goals.all_placed(job):
        return Step.PLACED
    if phase is Phase.RUNNING and job.drain_offset is not None:
        return Step.DRAIN_ASKED
    if phase is Phase.DRAINING and job.all_ran_out:
        return Step.RAN_OUT
    if phase is Phase.STOPPING and goals.all_stopped(job) and not _reported(job, fleet):
        return Step.STOPPED
    return None


def _has_turn(job: Job, jobs: Iterable[Job]) -> bool:
    """True if no earlier job of the same name is undecided; so all replicas find the same name in use."""
    return not any(other.undecided and other.name == job.name and other.offset < job.offset for other in jobs)


def _to_stop(job: Job, goals: Goals) -> bool:
    """True if the job is to stop. `assignments` alone does not decide: a record there that ends a job can be a
    mistake.
    """
    if job.cancel_offset is not None:
        return True
    return job.drain_offset is not None and (goals.stop(job) is not None or goals.taken_down(job))


def _reported(job: Job, fleet: Fleet) -> bool:
    """True if a worker that answers still has a copy."""
    return any(True for unit in job.units for _ in fleet.reports(unit))


def reason(job: Job, goals: Goals) -> str:
    """Returns the reason of the job's end, as the replica that stopped it states it."""
    stop = goals.stop(job)
    if stop is not None:
        return stop.reason
    if job.given_up:
        return job.given_up
    if job.successor:
        return replaced_by(job.successor)
    return "drained" if job.all_ran_out else "cancelled"


def action(job: Job, deed: Deed, author: Author, goals: Goals) -> Action:
    """Returns the action for a deed."""
    if deed is Deed.DRAFT:
        return Draft(job.generation, author.next(), job.value or b"")
    if deed is Deed.PROPOSE:
        assert job.proposal is not None, f"{job.label}: nothing to propose"
        return AppendDecision(job.proposal)
    assert job.plan is not None, f"{job.label}: {deed.value} without a plan"
    match deed:
        case Deed.CREATE:
            return CreateTopics(job.plan)
        case Deed.DRAIN:
            assert job.drain_offset is not None, f"{job.label}: drains unasked"
            return AppendControl(job.plan, "drain", job.drain_offset)
        case Deed.FENCE:
            return FenceIds(job.plan)
        case Deed.DELETE:
            return DeleteTopics(job.plan)
        case Deed.PROPOSE_END:
            why = reason(job, goals)
            end = Ended(job.name, job.generation, author.next(), job.plan.id, why, **asdict(job.counts))
            return AppendDecision(end)
