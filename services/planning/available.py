"""Settings that a job file may have and that this release does not carry out yet.

Source: JOBS "What a release does not have yet is accepted, run as `none`, and warned of". That rule holds for the way a
job runs. A setting that would change the results of a job is a problem instead, so results never differ silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from holdfast.schemas.jobs import JobSpec

SCHEMES = frozenset(
    {
        "none",
        "passive",
        "deployed",
        "passive-cold",
        "passive-hot",
        "hybrid",
        "active-standby",
        "active-replication",
        "adaptive",
    }
)
"""Fault-tolerance schemes that this release carries out; a unit with another scheme runs as `none`."""

_SPARKS_OWN = "one task brings back what Spark computes; its own tasks: HOLDFAST_SPARK_SHUFFLE_PARTITIONS"

_OF_ADAPTIVE = (
    "fault_tolerance.recovery_time_ms",
    "fault_tolerance.weights",
    "fault_tolerance.cool_down_s",
)
"""Settings that only adaptive units read."""

_ELSEWHERE = {
    "fault_tolerance.heartbeat_interval_ms": "a worker beats for all its jobs; HOLDFAST_HEARTBEAT_INTERVAL_MS sets it",
}
"""Settings of a job file without effect, with the setting that is used in their place."""


def scheme(wanted: str) -> str:
    """The scheme under which a unit runs if its job file asks for this one."""
    return wanted if wanted in SCHEMES else "none"


def ignored_warnings(spec: JobSpec) -> Iterator[str]:
    """Warnings about settings of the job file that have no effect."""
    settings = spec.fault_tolerance
    wanted = {"default": settings.default} | {f"units.{name}": one for name, one in settings.units.items()}
    for path, one in wanted.items():
        if one.scheme not in SCHEMES:
            yield f"fault_tolerance.{path}.scheme: {one.scheme} is not available yet, runs as none"
    if not any(one.scheme == "adaptive" for one in wanted.values()):
        for path in _OF_ADAPTIVE:
            if _at(spec, path) != _at(_DEFAULTS, path):
                yield f"{path}: has no effect as long as no unit is adaptive"
    for path, instead in _ELSEWHERE.items():
        if _at(spec, path) != _at(_DEFAULTS, path):
            yield f"{path}: has no effect: {instead}"
    read_by_spark = {name for one in spec.operators.values() if one.kind == "spark" for name in one.inputs}
    for name, source in spec.sources.items():
        if source.on_data_loss != "fail" and name in read_by_spark:
            yield f"sources.{name}.on_data_loss: {source.on_data_loss} has no effect on what Spark reads, runs as fail"
    for name, operator in spec.operators.items():
        if operator.kind == "spark" and (operator.parallelism or 1) > 1:
            yield f"operators.{name}.parallelism: has no effect: {_SPARKS_OWN}"


_DEFAULTS = JobSpec.model_construct(name="", sources={}, queries={})


def _at(spec: JobSpec, path: str) -> object:
    return reduce(getattr, path.split("."), spec)
