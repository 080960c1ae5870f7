"""Checkpoint policy of the units of a job: that of its plan, or the newer one in `assignments`.

Source: JOBS "fault_tolerance", PROTOCOL 1 and 6.
"""

from __future__ import annotations

from holdfast.schemas.assignments import CheckpointPolicy, job_key
from holdfast.schemas.plans import Plan
from holdfast.schemas.retired import submitted
from holdfast.services.decisions.assigned import Assigned

ALIGNED = "aligned"
"""The policy under which there are global checkpoints."""
READ = {
    "sweep": ("interval_ms",),
    "synchronous": ("interval_ms",),
    "individual": ("interval_ms",),
    "whole-worker": ("interval_ms",),
    ALIGNED: ("every_batches",),
    "idle-minmax": ("min_interval_ms", "max_interval_ms", "merge_ms"),
    "idle-roundrobin": ("min_interval_ms", "max_interval_ms"),
}
"""By policy, the settings that it reads."""


def planned(plan: Plan) -> CheckpointPolicy:
    """Returns the policy of the job file, with defaults for missing settings."""
    asked = plan.settings.fault_tolerance.checkpoint
    return CheckpointPolicy(
        job=plan.job,
        generation=plan.generation,
        asked=submitted(plan.generation) or 0,
        since=submitted(plan.generation) or 0,
        policy=asked.policy,
        interval_ms=asked.interval_ms,
        min_interval_ms=asked.min_interval_ms,
        max_interval_ms=asked.max_interval_ms,
        merge_ms=asked.merge_ms,
        every_batches=asked.every_batches,
    )


def in_force(plan: Plan, assigned: Assigned) -> CheckpointPolicy:
    """Returns the policy in force, as far as `assignments` was read."""
    return assigned.policy(job_key(plan.job, plan.generation)) or planned(plan)
