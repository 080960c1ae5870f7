"""Settings of a job that services read from its plan: the job file as it was admitted, decoded once.

A plan of a former version lacks newer settings. Each of these then has the value under which that version worked. The
words and their meanings are those of schemas/jobs.py and schemas/job_settings.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.schemas.decoders import Amount, Count, Positive


class HybridPlan(msgspec.Struct, frozen=True):
    inputs: str = "held"
    calm_ms: Count = 2_000


class CheckpointPlan(msgspec.Struct, frozen=True):
    policy: str = "sweep"
    interval_ms: Count = 500
    min_interval_ms: Count = 100
    max_interval_ms: Count = 10_000
    merge_ms: Amount = 5.0
    every_batches: Positive = 10


class CorrelatedFailurePlan(msgspec.Struct, frozen=True):
    workers: Positive = 2
    within_s: Amount = 10.0


class TolerancePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The section `fault_tolerance` of a job."""

    units: dict[str, Any] = {}
    """The names are those of operators and units that have a scheme of their own."""
    recovery_time_ms: Amount = 500.0
    precision: str = "exact"
    weights: dict[str, Amount] = {}
    hybrid: HybridPlan = HybridPlan()
    checkpoint: CheckpointPlan = CheckpointPlan()
    buffering: str = "upstream"
    replication_budget: Amount | None = None
    fail_stop_timeout_s: Amount = 30.0
    misses: Count | None = None
    correlated_failure: CorrelatedFailurePlan = CorrelatedFailurePlan()
    cool_down_s: Amount = 5.0
    rebalance_period_s: Amount = 60.0


class PlacementPlan(msgspec.Struct, frozen=True):
    spread_by: str = "zone"


class QueryPlan(msgspec.Struct, frozen=True):
    priority: Positive = 1
    results: str = ""


class PlanSettings(msgspec.Struct, frozen=True):
    max_batch_records: Count = 10_000
    max_batch_bytes: Count = 8 * 1024 * 1024
    batch_interval_ms: float | None = None
    latency_ms: float | None = None
    on_error: str = ""
    on_divergence: str = ""
    dead_letter_share: float = 1.0
    memory_limit_mb: Count | None = None
    retain_bytes: Count | None = None
    keep_cuts: bool = False
    replay_horizon_s: float = 3_600.0
    keep_dead_letters_s: float | None = None
    """None: a plan from before there was a limit."""
    keep_dead_letters_bytes: int = 1024**3
    fault_tolerance: TolerancePlan = TolerancePlan()
    placement: PlacementPlan = PlacementPlan()
    queries: dict[str, QueryPlan] = {}


def settings_of(spec: Mapping[str, Any]) -> PlanSettings:
    """Returns the settings; null counts as absent. Raises msgspec.ValidationError."""
    return msgspec.convert(_given(spec), PlanSettings)


def _given(part: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _given(value) if isinstance(value, Mapping) else value
        for name, value in part.items()
        if value is not None
    }
