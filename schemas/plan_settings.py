"""Settings of a job that services read from its plan: the job file as it was admitted, decoded once.

A plan of a former version lacks newer settings. Each of these then has the value under which that version worked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class PlanSettings(msgspec.Struct, frozen=True):
    """Settings with the meanings of schemas/jobs.py and schemas/job_settings.py."""

    max_batch_records: int = 10_000
    max_batch_bytes: int = 8 * 1024 * 1024
    batch_interval_ms: float | None = None
    latency_ms: float | None = None
    on_error: str = ""
    on_divergence: str = ""
    dead_letter_share: float = 1.0
    memory_limit_mb: int | None = None
    retain_bytes: int | None = None
    keep_cuts: bool = False
    replay_horizon_s: float = 3_600.0
    keep_dead_letters_s: float | None = None
    """None: a plan from before there was a limit."""
    keep_dead_letters_bytes: int = 1024**3
    fault_tolerance: dict[str, Any] = {}
    placement: dict[str, Any] = {}
    sources: dict[str, dict[str, Any]] = {}
    queries: dict[str, dict[str, Any]] = {}

    @property
    def tables(self) -> frozenset[str]:
        """Sources that are tables."""
        return frozenset(name for name, source in self.sources.items() if source.get("table"))


def settings_of(spec: Mapping[str, Any]) -> PlanSettings:
    """Returns the settings; null counts as absent. Raises msgspec.ValidationError."""
    return msgspec.convert({name: value for name, value in spec.items() if value is not None}, PlanSettings)
