"""A worker is checkpointed as one: at each tick of a timer, no unit processes a batch before all units have captured.

Source: MECHANISMS C6, which uses it as baseline. It covers the units whose jobs ask for this policy.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.services.worker.checkpoint.policies.policy import Stateless, UnitView, tick_wait_ms


class WholeWorker(Stateless):
    """A policy that captures all units of a worker together."""

    name = "whole-worker"

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        return tick_wait_ms(units[unit], now_ms)

    def holds(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        """True if a unit under this policy captures now or is due. A unit whose former run is not valid yet holds no
        other unit back, because that run may need their batches. The unit captures once the run is valid, and holds the
        others back then."""
        return any(
            one.capturing or (one.resting and tick_wait_ms(one, now_ms) == 0.0)
            for one in units.values()
            if one.leads and one.policy == self.name
        )
