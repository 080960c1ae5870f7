"""When nothing that a job holds waits for time to pass, so that its sources may cut seldom while no records come.

Empty cuts carry the time of a stream that is idle: it closes windows and tells a join that no partner comes any more.
Source: PROTOCOL 3 (idle sources), which cuts every 500 ms whatever the job holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from schemas.checkpoints import TaskCuts
from schemas.plans import OperatorPlan, Plan

_SECOND_US = 1_000_000


def horizon_us(plan: Plan) -> float:
    """How far the watermark must be past the newest event time before no operator holds anything for it, microseconds.

    0: none ever does, or no source becomes idle, so that time alone moves no watermark. Infinite: only code knows.
    """
    if all(source.get("idle_after_s") is None for source in plan.spec["sources"].values() if not source.get("table")):
        return 0.0
    return sum(_holds_us(operator) for operator in plan.operators)


def settled(tasks: Iterable[TaskCuts], horizon: float) -> bool:
    """Whether the watermarks of a job's source tasks are so far past every event time that was cut."""
    if horizon == 0:
        return True
    known = list(tasks)
    times = [r.newest_us for task in known for r in task.ranges if r.newest_us is not None]
    return not times or max(times) + horizon < min(task.watermark for task in known)


def _holds_us(operator: OperatorPlan) -> float:
    if operator.kind in ("python", "spark"):
        return math.inf
    held: Mapping[str, Any] = operator.params.get("window") or operator.params.get("join") or {}
    return float(held.get("size_s") or held.get("within_s") or 0.0) * _SECOND_US
