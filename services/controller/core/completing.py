"""Completion of a job's global checkpoints: a record of `assignments` states it, and its units go by that.

Source: MECHANISMS R1, PROTOCOL 7; docs/decisions/0085. The progress that units publish shows that one is complete
(decisions/global_checkpoints.py); the record gives it a place among rollbacks and policies. No controller keeps more
than it can read again.
"""

from __future__ import annotations

from holdfast.schemas.assignments import GlobalCheckpoint, unit_key
from holdfast.schemas.progress import Progress
from holdfast.services.controller.core.job import Job
from holdfast.services.controller.core.life import PLACED
from holdfast.services.decisions.counting import behind
from holdfast.services.decisions.global_checkpoints import newest
from holdfast.services.decisions.policies import ALIGNED, in_force
from holdfast.services.decisions.standings import Standings

EVERY_MS = 500
"""Between two records: inputs are trimmed to the newest one, so each one in between would only be another record."""


def wanted(job: Job, standings: Standings) -> bool:
    """True if the progress that the units of a job publish is to be read."""
    return (
        job.plan is not None and job.life.phase in PLACED and in_force(job.plan, standings.assigned).policy == ALIGNED
    )


def read(job: Job, record: Progress) -> None:
    """Takes what a unit has published."""
    known = job.progress.get(record.unit)
    if known is None or not behind(record, known):
        job.progress[record.unit] = record


def due(job: Job, standings: Standings, now_ms: int) -> GlobalCheckpoint | None:
    """The record to state now; None: nothing new is complete, or a record is too fresh."""
    if job.plan is None or not job.progress or now_ms - job.complete_ms < EVERY_MS or not wanted(job, standings):
        return None
    assigned, plan = standings.assigned, job.plan
    policy = in_force(plan, assigned)
    changes = {unit.name: assigned.of(unit_key(plan.job, plan.generation, unit.name)) for unit in plan.units}
    lines = {unit: 0 if change is None else change.line for unit, change in changes.items()}
    batch = newest(job.progress, lines, policy.since, max(0, assigned.complete(job.label)))
    if batch is None:
        return None
    job.complete_ms = now_ms
    return GlobalCheckpoint(job.name, job.generation, batch, policy.since, line=assigned.line(job.label))
