"""Every unit of a job captures after the same batches: every n-th one. All of them together are a global checkpoint.

Source: MECHANISMS R1. The number of the batch says when, so no unit waits for another one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from holdfast.services.worker.checkpoint.policies.policy import Stateless, UnitView


class Aligned(Stateless):
    """Implements Policy."""

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        """A unit that has ended captures at once."""
        sight = units[unit]
        due = sight.batches > 0 and (sight.ended or _due(sight))
        return 0.0 if due else math.inf

    def holds(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        """The batch after an n-th one waits until the capture has begun, which waits until the former run is valid.

        Not while runs of another copy wait: this copy may have to process batches to reach them.
        """
        sight = units[unit]
        return sight.batches > 0 and not sight.waiting and _due(sight)


def _due(sight: UnitView) -> bool:
    return sight.batch % sight.every_batches == 0 and sight.captured_batch < sight.batch
