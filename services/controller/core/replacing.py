"""A job that takes the place of another one of its name: how far that has come, as the logs say.

Source: docs/decisions/0183-an-update-is-one-record.md. The former job is stopped once one controller has planned the
new one. From there on it never runs again, whatever other controllers find: its state is what the new job begins with.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schemas.plans import Problem
from holdfast.schemas.savepoints import replaced_by
from holdfast.services.controller.core.goals import Goals
from holdfast.services.controller.core.job import Job
from holdfast.services.decisions.admitted import Admitted


def undecided(job: Job, jobs: Iterable[Job]) -> bool:
    """True while it is not decided whether another job takes its place.

    A controller that starts cannot know how far a former one had ended this job for the other one: its topics may be
    gone, and with them the savepoint that it began with.
    """
    return any(one.undecided and one.replaces == job.generation for one in jobs)


def stopped(job: Job, jobs: Iterable[Job], goals: Goals) -> bool:
    """True if a controller has stopped it for a job that was submitted to take its place."""
    return any(other.replaces == job.generation and _stopped_for(job, other, goals) for other in jobs)


def begun(job: Job, in_use: Job | None, admitted: Admitted, goals: Goals) -> bool:
    """True if some controller could plan the job, and has stopped the one whose place it takes.

    in_use: the job that has its name now.
    """
    if (ended := admitted.ended(job.replaces)) is not None:
        return ended.reason == replaced_by(job.label)
    return in_use is not None and in_use.generation == job.replaces and _stopped_for(in_use, job, goals)


def lost(job: Job, admitted: Admitted) -> Problem | None:
    """Why a job that takes another's place must not begin, though that is over: it did not end for this one."""
    g = job.replaces
    ended = admitted.ended(g)
    if not g or (ended is not None and ended.reason == replaced_by(job.label)):
        return None
    message = f"{job.name}@{g}, whose place it is to take, has ended otherwise: rows might be delivered twice"
    return Problem("name", message, "`holdfast submit --from` begins with a savepoint that you have")


def _stopped_for(job: Job, other: Job, goals: Goals) -> bool:
    stop = goals.stop(job)
    return stop is not None and stop.reason == replaced_by(other.label)
