"""Buffering of a job: if only its sources retain records, its data topics are trimmed to the newest markers.

Source: MECHANISMS R2, PROTOCOL 7, docs/decisions/0112. These decisions depend on the read part of `assignments` alone.
"""

from __future__ import annotations

from holdfast.schemas.assignments import job_key
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.policies import ALIGNED, in_force

UPSTREAM = "upstream"
"""Buffering under which every unit retains its output until the next global checkpoint."""


def buffering(plan: Plan) -> str:
    """Returns the buffering of the job file, or the default."""
    return plan.settings.fault_tolerance.buffering


def rolls_back(plan: Plan, assigned: Assigned) -> bool:
    """True if a failed unit rolls back, with its upstream units, to the newest global checkpoint, and there is one."""
    if buffering(plan) == UPSTREAM or assigned.complete(job_key(plan.job, plan.generation)) < 0:
        return False
    return in_force(plan, assigned).policy == ALIGNED


def only_sources_retain(plan: Plan, assigned: Assigned) -> bool:
    """True if only sources need to retain: the newest global checkpoint is later than every failure and rollback."""
    job = job_key(plan.job, plan.generation)
    if not rolls_back(plan, assigned):
        return False
    newest, incident = assigned.checkpoint(job), assigned.incident(job)
    batch, line = (0, 0) if newest is None else (newest.batch, newest.line)
    if incident is not None and not (incident.over and batch > incident.complete):
        return False
    return line == assigned.line(job)
