"""The units behind a loaded one in a chain: each on a machine of its own without other load. Pure.

A unit processes its batches in order, one at a time, so batches that arrive late and together leave one by one. Source:
MECHANISMS Z4.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.model.failover import NEED, STEP_MS

WORK_MS = NEED * STEP_MS
"""A batch at a unit that has its machine to itself."""


def passed(arrived_ms: Sequence[float], units: int = 1) -> list[float]:
    """Times at which each batch leaves the last of a number of units, given its arrival at the first one."""
    left_ms = list(arrived_ms)
    for _ in range(units):
        free_ms = 0.0
        for batch, came_ms in enumerate(left_ms):
            free_ms = max(free_ms, came_ms) + WORK_MS
            left_ms[batch] = free_ms
    return left_ms
