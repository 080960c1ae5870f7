"""What a job file may ask of its checkpoints: which settings go with which policy, and what cannot work.

Source: JOBS "fault_tolerance", MECHANISMS C3, C5 and C6.
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.job_settings import CheckpointSettings
from schemas.jobs import JobSpec
from schemas.plans import Problem
from services.planning.spark_inputs import operators as spark_operators

_AT = "fault_tolerance.checkpoint"
_READ = {
    "sweep": ("interval_ms",),
    "synchronous": ("interval_ms",),
    "individual": ("interval_ms",),
    "whole-worker": ("interval_ms",),
    "aligned": ("every_batches",),
    "idle-minmax": ("min_interval_ms", "max_interval_ms", "merge_ms"),
    "idle-roundrobin": ("min_interval_ms", "max_interval_ms"),
}
"""By policy, the settings that it reads."""
_ACTIVE = ("active-standby", "active-replication")
_DEFAULTS = CheckpointSettings()


def problems(spec: JobSpec) -> Iterator[Problem]:
    """Policies and intervals that cannot work with what else the file says."""
    asked = spec.fault_tolerance.checkpoint
    if "max_interval_ms" in _READ[asked.policy] and asked.max_interval_ms < asked.min_interval_ms:
        message = f"{asked.max_interval_ms} is less than min_interval_ms, {asked.min_interval_ms}: both cannot be kept"
        yield Problem(f"{_AT}.max_interval_ms", message, "raise it, or lower min_interval_ms")
    if asked.policy == "aligned":
        for name in spark_operators(spec):
            message = f"aligned does not work with operators.{name}: Spark checkpoints by its own micro-batches"
            yield Problem(f"{_AT}.policy", message, "take sweep, or take the operator out of the job")
    if asked.policy == "idle-minmax":
        yield from _without_replay(spec)


def _without_replay(spec: JobSpec) -> Iterator[Problem]:
    """A standby that processes repeats nothing, so no capture shortens a recovery."""
    settings = spec.fault_tolerance
    wanted = {"default": settings.default} | {f"units.{name}": one for name, one in settings.units.items()}
    for path, one in wanted.items():
        if one.scheme in _ACTIVE:
            message = (
                f"idle-minmax captures what a standby would have to repeat, and under {one.scheme} "
                f"(fault_tolerance.{path}) it repeats nothing"
            )
            yield Problem(f"{_AT}.policy", message, "take sweep or idle-roundrobin, or a passive scheme or hybrid")


def warnings(spec: JobSpec) -> Iterator[str]:
    """Settings that the policy does not read."""
    asked = spec.fault_tolerance.checkpoint
    for name in sorted({name for names in _READ.values() for name in names}.difference(_READ[asked.policy])):
        if getattr(asked, name) != getattr(_DEFAULTS, name):
            *others, last = _READ[asked.policy]
            read = f"{', '.join(others)} and {last}" if others else last
            yield f"{_AT}.{name}: has no effect under {asked.policy}, which reads {read}"
