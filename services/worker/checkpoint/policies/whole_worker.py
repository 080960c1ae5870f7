"""A worker is checkpointed as one: at each tick of a timer no unit processes a batch before all have captured.

Source: MECHANISMS C6, whose baseline it is. The units are those whose jobs ask for this policy.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.services.worker.checkpoint.policies.policy import Stateless, UnitView, tick_wait_ms


class WholeWorker(Stateless):
    """Implements Policy."""

    name = "whole-worker"

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        return tick_wait_ms(units[unit], now_ms)

    def holds(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        """A unit whose former run is still on its way holds nobody back: that run may wait for the batches of others.

        It captures once the run is valid, and holds the others back then.
        """
        return any(
            one.capturing or (one.resting and tick_wait_ms(one, now_ms) == 0.0)
            for one in units.values()
            if one.leads and one.policy == self.name
        )
