"""Every unit of a job captures after the same batches, namely every n-th one. Their runs form a global checkpoint.

Source: MECHANISMS R1. The batch number alone determines the capture, so no unit waits for another one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from holdfast.services.worker.checkpoint.policies.policy import Stateless, UnitView


class Aligned(Stateless):
    """A policy that captures after every n-th batch."""

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        """Returns 0 if the unit is due, and math.inf otherwise. A unit that has ended captures at once."""
        view = units[unit]
        due = view.batches > 0 and (view.ended or _due(view))
        return 0.0 if due else math.inf

    def holds(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        """True if the batch after an n-th one must wait until the capture has begun; the capture waits until the former
        run is valid. False while runs of another copy wait, because this copy may have to process batches to reach
        them."""
        view = units[unit]
        return view.batches > 0 and not view.waiting and _due(view)


def _due(view: UnitView) -> bool:
    return view.batch % view.every_batches == 0 and view.captured_batch < view.batch
