"""Settings of a job that change how it runs, not what it computes: fault tolerance and placement.

Source: JOBS "A job file", MECHANISMS sections 1 to 5.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from holdfast.schemas.job_part import JobPart, Milliseconds, Name, Number, Seconds, Span, Whole

Scheme = Literal[
    "none",
    "active-replication",
    "active-standby",
    "passive-hot",
    "passive-cold",
    "deployed",
    "passive",
    "hybrid",
    "adaptive",
]
SCHEME_NAMES: tuple[str, ...] = get_args(Scheme)
Policy = Literal["sweep", "synchronous", "individual", "aligned", "idle-minmax", "idle-roundrobin", "whole-worker"]
POLICY_NAMES: tuple[str, ...] = get_args(Policy)
Weight = Annotated[Number, Field(ge=0, le=1_000_000)]


class SchemeSettings(JobPart):
    """How units survive a failure."""

    scheme: Scheme = "hybrid"
    """Fault-tolerance scheme; `none` is one copy, placed again from its checkpoint log. With one worker alone a unit
    runs without its standby, and `holdfast status` says so."""


CALM_MS = 2_000


class HybridSettings(JobPart):
    """How the secondary of the hybrid scheme stands by, and when it hands back what it has taken over."""

    inputs: Literal["held", "paused"] = "held"
    """held: it receives and keeps its inputs; paused: connected early, nothing is fetched (the paper's)."""
    calm_ms: Annotated[Whole, Field(ge=0, le=600_000)] = CALM_MS
    """After a switch both copies work; the primary leads again once its worker missed no heartbeat for so long."""


class Weights(JobPart):
    """What the adaptive scheme counts as costly; only the ratios matter."""

    cpu: Weight = 1.0
    """Weight of CPU time."""
    memory: Weight = 1.0
    """Weight of memory."""
    network: Weight = 1.0
    """Weight of bytes sent."""
    workers: Weight = 1.0
    """Weight of workers occupied."""


class CheckpointSettings(JobPart):
    """Checkpoints of a unit's state."""

    policy: Policy = "sweep"
    """When a unit captures its state; sweep: sink-most units on the timer, the others after their output was trimmed.
    """
    interval_ms: Annotated[Whole, Field(ge=50, le=3_600_000)] = 500
    """Time between two checkpoints of a unit (sweep, synchronous, individual, whole-worker)."""
    min_interval_ms: Annotated[Whole, Field(ge=0, le=3_600_000)] = 100
    """No two checkpoints of a unit closer than this (idle policies)."""
    max_interval_ms: Annotated[Whole, Field(ge=50, le=24 * 3_600_000)] = 10_000
    """A checkpoint at least this often, idle or not (idle policies)."""
    merge_ms: Annotated[Number, Field(ge=0, le=60_000)] = 5.0
    """Units of a worker that have the same standby's worker, and about the same load for what a capture costs, are
    captured one after the other as one unit as long as that takes no more; 0: none are (idle-minmax)."""
    every_batches: Annotated[Whole, Field(ge=1, le=10_000)] = 10
    """A checkpoint after every batch with a multiple of this number (aligned)."""


class CorrelatedFailure(JobPart):
    """When single failures count as one correlated failure."""

    workers: Annotated[Whole, Field(ge=1, le=1000)] = 2
    """So many workers fail ..."""
    within_s: Span = 10.0
    """... within so many seconds."""


class FaultTolerance(JobPart):
    """Schemes, checkpoints and detection."""

    default: SchemeSettings = SchemeSettings()
    """Scheme of every unit that `units` does not name."""
    units: dict[str, SchemeSettings] = Field(default={})
    """Scheme by operator or unit name."""
    recovery_time_ms: Milliseconds = 500
    """Recovery time that the adaptive scheme must keep."""
    precision: Literal["exact", "gap"] = "exact"
    """gap: a copy that takes over starts at the newest batch without replay; what it skips is counted lost."""
    weights: Weights = Weights()
    """Costs that the adaptive scheme weighs."""
    hybrid: HybridSettings = HybridSettings()
    """Settings of the hybrid scheme."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """When state is captured."""
    buffering: Literal["source", "upstream", "adaptive"] = "upstream"
    """Units that failed are restored each at its own newest checkpoint (upstream), or at the newest global one: all at
    once (source), or one by one if the failure is correlated (adaptive). Needs the policy aligned."""
    replication_budget: Annotated[Number, Field(ge=0, le=1)] | None = None
    """Partial replication: the share of tasks that may be replicated; null: not planned."""
    fail_stop_timeout_s: Annotated[Number, Field(ge=1, le=24 * 3600)] = 30.0
    """A worker silent for so long counts as gone for good."""
    heartbeat_interval_ms: Annotated[Whole, Field(ge=10, le=60_000)] = 100
    """Has no effect: a worker beats for all its jobs, as HOLDFAST_HEARTBEAT_INTERVAL_MS says."""
    misses: Annotated[Whole, Field(ge=1, le=100)] | None = None
    """Missed heartbeats before a switch; null: the scheme's own (hybrid 1, passive 3)."""
    correlated_failure: CorrelatedFailure = CorrelatedFailure()
    """When failures count as correlated."""
    cool_down_s: Seconds = 5.0
    """The adaptive scheme rests so long after a change."""
    rebalance_period_s: Span = 60.0
    """A unit is moved off a worker with more than its share at most once in so long, and its standby to another worker,
    so that the worst failure is recovered sooner."""


class Placement(JobPart):
    """Which operators share a unit, and where copies go."""

    units: list[Annotated[list[Name], Field(min_length=1)]] = Field(default=[])
    """Each list names the sources, operators and queries of one unit; the others fuse along one-to-one edges."""
    spread_by: Literal["zone", "host", "none"] | None = "zone"
    """What the copies of a unit are kept apart by, where there is room: zone (also null), host (machine), or none: only
    two workers."""
