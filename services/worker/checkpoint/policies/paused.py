"""A unit captures at once when its paused job comes to rest. A savepoint or an update waits for all of these runs.

Source: PROTOCOL 3 and 6, decision 0213.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from holdfast.services.worker.checkpoint.policies.policy import Stateless, UnitView


class Paused(Stateless):
    """A policy for units of a paused job."""

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        view = units[unit]
        return 0.0 if view.batches > 0 and view.rests else math.inf
