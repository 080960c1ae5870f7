"""Completion of a job's global checkpoints: a record of `assignments` states it, and the job's units follow that
record.

Source: MECHANISMS R1, PROTOCOL 7; docs/decisions/0085. The progress that units publish shows that a global checkpoint
is complete (decisions/global_checkpoints.py); the record orders it among rollbacks and policies. A controller keeps
only state that it can read again.
"""

from __future__ import annotations

from holdfast.schemas.assignments import GlobalCheckpoint, unit_key
from holdfast.schemas.progress import Progress
from holdfast.services.controller.core.job import Job
from holdfast.services.controller.core.life import PLACED
from holdfast.services.decisions.global_checkpoints import newest
from holdfast.services.decisions.policies import ALIGNED, in_force
from holdfast.services.decisions.standings import Standings
from holdfast.services.decisions.sums import behind

EVERY_MS = 500
"""Least time between two records: inputs are trimmed to the newest one, so one in between would have no use."""


def wanted(job: Job, standings: Standings) -> bool:
    """True if the controller is to read the progress that the job's units publish."""
    return (
        job.plan is not None and job.life.phase in PLACED and in_force(job.plan, standings.assigned).policy == ALIGNED
    )


def read(job: Job, record: Progress) -> None:
    """Takes the progress that a unit has published."""
    known = job.progress.get(record.unit)
    if known is None or not behind(record, known):
        job.progress[record.unit] = record


def due(job: Job, standings: Standings, now_ms: int) -> GlobalCheckpoint | None:
    """Returns the record to state now; None if no newer checkpoint is complete, or the last record is too recent."""
    if job.plan is None or not job.progress or now_ms - job.complete_ms < EVERY_MS or not wanted(job, standings):
        return None
    assigned, plan = standings.assigned, job.plan
    policy = in_force(plan, assigned)
    workers = [unit.name for unit in plan.units if not unit.host]  # what Spark has given lies in its commit log
    changes = {unit: assigned.of(unit_key(plan.job, plan.generation, unit)) for unit in workers}
    lines = {unit: 0 if change is None else change.line for unit, change in changes.items()}
    batch = newest(job.progress, lines, policy.since, max(0, assigned.complete(job.label)))
    if batch is None:
        return None
    job.complete_ms = now_ms
    return GlobalCheckpoint(job.name, job.generation, batch, policy.since, line=assigned.line(job.label))
