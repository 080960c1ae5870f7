"""Checkpoint policy of the units of a job: that of its plan, or the newer one in `assignments`.

Source: JOBS "fault_tolerance", PROTOCOL 1 and 6.
"""

from __future__ import annotations

from typing import Any

from holdfast.schemas.assignments import CheckpointPolicy, job_key
from holdfast.schemas.job_settings import CheckpointSettings
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
_DEFAULTS = CheckpointSettings().model_dump()


def planned(plan: Plan) -> CheckpointPolicy:
    """Returns the policy of the job file, with defaults for missing settings."""
    written: dict[str, Any] = plan.settings.fault_tolerance.get("checkpoint") or {}
    every = {**_DEFAULTS, **written}
    return CheckpointPolicy(
        job=plan.job,
        generation=plan.generation,
        asked=submitted(plan.generation) or 0,
        since=submitted(plan.generation) or 0,
        policy=every["policy"],
        interval_ms=every["interval_ms"],
        min_interval_ms=every["min_interval_ms"],
        max_interval_ms=every["max_interval_ms"],
        merge_ms=float(every["merge_ms"]),
        every_batches=every["every_batches"],
    )


def in_force(plan: Plan, assigned: Assigned) -> CheckpointPolicy:
    """Returns the policy in force, as far as `assignments` was read."""
    return assigned.policy(job_key(plan.job, plan.generation)) or planned(plan)
