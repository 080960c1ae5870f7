"""Checks the checkpoint settings of a job: the settings that each policy reads, and combinations that cannot work.

Source: JOBS "fault_tolerance", MECHANISMS C3, C5 and C6. The rules at submission hold for a change of a running job as
well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.schemas.job_settings import CheckpointSettings
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Problem
from holdfast.services.decisions.policies import ALIGNED, READ
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.protection.fitting import unfit
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.spark_inputs import operators as spark_operators

_AT = "fault_tolerance.checkpoint"
_DEFAULTS = CheckpointSettings()


def problems(spec: JobSpec) -> Iterator[Problem]:
    """Problems of the checkpoint policy and its intervals, alone and together with other settings of the file."""
    settings = spec.fault_tolerance
    wanted = {"default": settings.default} | {f"units.{name}": one for name, one in settings.units.items()}
    yield from _problems(spec, {f"fault_tolerance.{path}": one.scheme for path, one in wanted.items()})


def changed(
    spec: Mapping[str, Any], policy: str, settings: Mapping[str, float], schemes: Mapping[str, str]
) -> CheckpointSettings:
    """Returns the checkpoint settings of a running job after a change to this policy and these settings.

    Args:
        spec: the job file, as the plan holds it.
        schemes: the present scheme of each unit, by name.

    Raises:
        JobRejected: the combination cannot work.
    """
    tolerance = dict(spec.get("fault_tolerance") or {})
    asked = interpret({**spec, "fault_tolerance": {**tolerance, "checkpoint": {**settings, "policy": policy}}})
    if found := list(_problems(asked, {f"unit {unit}": scheme for unit, scheme in schemes.items()})):
        raise JobRejected(found)
    return asked.fault_tolerance.checkpoint


def _problems(spec: JobSpec, schemes: Mapping[str, str]) -> Iterator[Problem]:
    """Problems of the checkpoint settings under these schemes, each given by its place: a path of the job file or a
    unit."""
    asked = spec.fault_tolerance.checkpoint
    if "max_interval_ms" in READ[asked.policy] and asked.max_interval_ms < asked.min_interval_ms:
        message = f"{asked.max_interval_ms} is less than min_interval_ms, {asked.min_interval_ms}: both cannot be kept"
        yield Problem(f"{_AT}.max_interval_ms", message, "raise it, or lower min_interval_ms")
    buffering = spec.fault_tolerance.buffering
    if asked.policy == ALIGNED and buffering != "upstream":
        for name in spark_operators(spec):
            message = f"{buffering} does not work with operators.{name}: its unit goes back to no global checkpoint"
            yield Problem("fault_tolerance.buffering", message, "leave it out, which is upstream")
    if asked.policy == ALIGNED and spec.retain_bytes is not None:
        message = (
            f"{ALIGNED} keeps what is sent until a global checkpoint is complete, and no batch begins while "
            "retain_bytes is kept: none might ever be complete"
        )
        yield Problem(f"{_AT}.policy", message, "take another policy, or leave retain_bytes out")
    for where, scheme in schemes.items():
        if message := unfit(asked.policy, scheme, where):
            yield Problem(f"{_AT}.policy", message, "take sweep or idle-roundrobin, or a passive scheme or hybrid")


def warnings(spec: JobSpec) -> Iterator[str]:
    """Warnings about settings that the policy does not read, or that need another policy."""
    asked, buffering = spec.fault_tolerance.checkpoint, spec.fault_tolerance.buffering
    if buffering != "upstream" and asked.policy != ALIGNED:
        needs = f"{buffering} goes by global checkpoints, which {asked.policy} does not make"
        yield f"fault_tolerance.buffering: {needs}, runs as upstream until the policy is {ALIGNED}"
    for name in without_effect(asked.policy):
        if getattr(asked, name) != getattr(_DEFAULTS, name):
            *others, last = READ[asked.policy]
            read = f"{', '.join(others)} and {last}" if others else last
            yield f"{_AT}.{name}: has no effect under {asked.policy}, which reads {read}"


def without_effect(policy: str) -> list[str]:
    """Settings that the policy does not read."""
    return sorted({name for names in READ.values() for name in names}.difference(READ[policy]))
