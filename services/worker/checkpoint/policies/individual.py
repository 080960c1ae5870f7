"""Each unit captures by a timer of its own. This policy is one of two baselines for comparison with sweeps.

Source: MECHANISMS S4. The paper calls it synchronous: one timer suspends and captures all tasks of a unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from holdfast.services.worker.checkpoint.policies.policy import Stateless, UnitView, rest_ms


class Individual(Stateless):
    """A policy with a timer for each unit."""

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        """The time until the unit's timer ends; the timer restarts with each capture. A unit that has ended captures at
        once."""
        view = units[unit]
        if view.batches == 0:
            return math.inf
        if view.ended:
            return 0.0
        return max(0.0, view.interval_ms - (now_ms - view.captured_ms), rest_ms(view, now_ms))
