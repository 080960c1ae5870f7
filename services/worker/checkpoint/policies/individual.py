"""Each unit captures by a timer of its own: one of the two baselines that sweeps are compared with.

Source: MECHANISMS S4. The paper calls this synchronous: one timer suspends and captures all tasks of a unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from holdfast.services.worker.checkpoint.policies.policy import Stateless, UnitView, rest_ms


class Individual(Stateless):
    """Implements Policy."""

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        """The timer begins again with each capture. A unit that has ended captures at once."""
        sight = units[unit]
        if sight.batches == 0:
            return math.inf
        if sight.ended:
            return 0.0
        return max(0.0, sight.interval_ms - (now_ms - sight.captured_ms), rest_ms(sight, now_ms))
