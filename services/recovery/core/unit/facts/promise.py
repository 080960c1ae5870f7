"""The promise of a job for its adaptive units.

Source: MECHANISMS A5, JOBS "fault_tolerance".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.schemas.plan_settings import TolerancePlan

_DEFAULTS = TolerancePlan()


@dataclass(frozen=True, slots=True)
class Promise:
    """The promise of a job.

    recovery_ms: time within which a unit has recovered.
    exact: true if the records that have arrived are replayed.
    weights: of each kind of usage.
    cool_down_us: least time between two changes of scheme that no user asked for.
    """

    recovery_ms: float = _DEFAULTS.recovery_time_ms
    exact: bool = True
    weights: Mapping[str, float] = field(default_factory=dict)
    cool_down_us: int = round(_DEFAULTS.cool_down_s * 1_000_000)


def promise(tolerance: TolerancePlan, exact: bool = True) -> Promise:
    """Reads the section `fault_tolerance` of a job.

    exact: true if the unit replays, see Promise.
    """
    cool_down_us = round(tolerance.cool_down_s * 1_000_000)
    return Promise(tolerance.recovery_time_ms, exact, tolerance.weights, cool_down_us)
