"""Ticks: points in time at which every process of a cluster sends its heartbeat.

Heartbeats that arrive together are answered to recovery by one or two requests instead of one for each worker. Clocks
of hosts that differ cost the requests alone.
"""

from __future__ import annotations

LEAST_SHARE = 0.1
"""A tick that is nearer than this share of the interval is left out: a wait may end a little early."""


def until_tick(interval_s: float, now_s: float) -> float:
    """Seconds until the next multiple of the interval by the clock of the machine.

    The result is at most 1 + LEAST_SHARE intervals.
    """
    left_s = interval_s - now_s % interval_s
    return left_s if left_s >= LEAST_SHARE * interval_s else left_s + interval_s
