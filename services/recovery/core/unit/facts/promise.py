"""The promise of a job for its adaptive units.

Source: MECHANISMS A5, JOBS "fault_tolerance".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.schemas.job_settings import FaultTolerance

_DEFAULTS = FaultTolerance()


@dataclass(frozen=True, slots=True)
class Promise:
    """The promise of a job.

    recovery_ms: time within which a unit has recovered.
    exact: true if the records that have arrived are replayed.
    weights: of each kind of usage.
    cool_down_us: least time between two changes of scheme that no user asked for.
    """

    recovery_ms: float = float(_DEFAULTS.recovery_time_ms)
    exact: bool = True
    weights: Mapping[str, float] = field(default_factory=dict)
    cool_down_us: int = round(_DEFAULTS.cool_down_s * 1_000_000)


def promise(tolerance: Mapping[str, Any], exact: bool = True) -> Promise:
    """Reads the section `fault_tolerance` of a job.

    exact: true if the unit replays, see Promise.
    """
    cool_down_s = tolerance.get("cool_down_s")
    return Promise(
        float(tolerance.get("recovery_time_ms") or _DEFAULTS.recovery_time_ms),
        exact,
        weights=dict(tolerance.get("weights") or {}),
        cool_down_us=round((_DEFAULTS.cool_down_s if cool_down_s is None else float(cool_down_s)) * 1_000_000),
    )
