"""Commands on `jobs.submit`: the job that each command concerns, and its effect there.

Source: PROTOCOL 1 and 3. A command concerns the newest job of its name that was submitted, or took over from another
job, before the command and was not rejected. So a command counts at most once, however often it is read, and never for
a later job.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.schemas.commands import Command
from holdfast.services.controller.core.job import Control, Job
from holdfast.services.controller.core.life import Phase
from holdfast.services.controller.core.status import STOPPED
from holdfast.services.planning.available import SCHEMES


@dataclass(frozen=True, slots=True)
class Asked:
    """A command as read.

    fresh: true if it was read after the start, so that no earlier controller has answered it.
    """

    offset: int
    timestamp_ms: int
    command: Command
    fresh: bool


def concerned(asked: Asked, jobs: Iterable[Job]) -> Job | None:
    """Returns the job that the command concerns."""
    named = [
        job
        for job in jobs
        if job.name == asked.command.job and job.life.phase is not Phase.REJECTED and _begins(job) < asked.offset
    ]
    return max(named, key=_begins, default=None)


def _begins(job: Job) -> float:
    begins = job.begins
    return math.inf if begins is None else begins


def apply(asked: Asked, job: Job) -> str:
    """Notes the command at its job, which is decided; returns the reason of a refusal, or an empty text."""
    kind = asked.command.command
    if job.over:
        return f"{job.label} has {job.life.phase.value}"
    if kind == "scheme":
        problem = _unit_unknown(asked.command, job) or _scheme_unknown(asked.command)
        if not problem:
            job.schemes[asked.command.unit] = asked.offset, asked.command.scheme
        return problem
    if kind in ("move", "drill") or (kind == "rollback" and asked.command.unit):
        return _unit_unknown(asked.command, job)
    if kind in ("rollback", "accept"):
        return ""
    if kind == "checkpoint":
        job.policies[asked.offset] = asked.command
    elif kind == "cancel":
        job.cancel_offset = asked.offset if job.cancel_offset is None else job.cancel_offset
    elif job.drain_offset is not None and kind != "drain":
        return f"{job.label} is draining"
    elif kind == "drain":
        job.drain_offset = asked.offset if job.drain_offset is None else job.drain_offset
    elif kind == "resume" and not asked.command.start and job.published is not None and job.published.state == STOPPED:
        return f"{job.published.error}"
    else:
        job.control = Control(kind, asked.offset, asked.command.start)
    return ""


def _unit_unknown(command: Command, job: Job) -> str:
    """Returns why the recovery service will not follow the command; empty if it will."""
    units = sorted(job.units.values())
    if command.unit in units:
        return ""
    return f"{job.label} has no unit '{command.unit}': one of {', '.join(units)}"


def _scheme_unknown(command: Command) -> str:
    if command.scheme not in SCHEMES:
        return f"there is no '{command.scheme}': one of {', '.join(sorted(SCHEMES))}"
    return ""
