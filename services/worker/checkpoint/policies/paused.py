"""A unit captures at once where a paused job comes to rest: a savepoint or an update waits for all of these runs.

Source: PROTOCOL 3 and 6, decision 0213.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from holdfast.services.worker.checkpoint.policies.policy import Stateless, UnitView


class Paused(Stateless):
    """Implements Policy."""

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        sight = units[unit]
        return 0.0 if sight.batches > 0 and sight.rests else math.inf
