"""The sweep: sink-most units capture by a timer, every other unit when its output was trimmed.

Source: MECHANISMS S1 to S3. A checkpoint acknowledges its inputs. The upstream unit then trims its output and captures,
so a sweep moves from the sinks to the sources.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from holdfast.services.worker.checkpoint.policies.policy import REST_MS, Stateless, UnitView

PATIENCE = 4
"""Number of intervals after which a unit captures even if its output was not trimmed, so that acks and trimming
continue."""
FEW_BATCHES = 8
"""Fewest batches for a sweep before PATIENCE intervals have passed. If batches are far apart, a sweep every interval
would cost as much as the batches (docs/decisions/0220)."""


class Sweep(Stateless):
    """A policy that captures by timer or after trimming."""

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        """The time until the unit captures. A unit that has ended captures at once."""
        view = units[unit]
        if view.batches == 0:
            return math.inf
        if view.ended:
            return 0.0
        interval_ms = view.interval_ms
        if view.still:
            limit_ms = max(PATIENCE * interval_ms, REST_MS)
        else:
            soon = (view.sinkmost or view.output_trimmed) and not view.sparse
            limit_ms = (1 if soon else PATIENCE) * interval_ms
        return max(0.0, limit_ms - (now_ms - view.swept_ms))
