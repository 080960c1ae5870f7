"""Ticks: the times at which every process of a cluster sends its heartbeat.

Heartbeats that arrive together reach recovery in one or two fetch answers instead of one for each worker. If the clocks
of hosts differ, only this saving is lost.
"""

from __future__ import annotations

LEAST_SHARE = 0.1
"""A tick nearer than this share of the interval is skipped, because a wait may end a little early."""


def until_tick(interval_s: float, now_s: float) -> float:
    """Seconds until the next multiple of the interval by the clock of the machine.

    The result is at most 1 + LEAST_SHARE intervals.
    """
    left_s = interval_s - now_s % interval_s
    return left_s if left_s >= LEAST_SHARE * interval_s else left_s + interval_s
