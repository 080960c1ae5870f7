"""All units of a worker capture at the same ticks of one timer. This policy is one of two baselines for sweeps.

Source: MECHANISMS S4, where the name means one timer for each unit (policy `individual` here). Each unit captures in
its own turn, so the captures of a tick are one turn of the loop apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.services.worker.checkpoint.policies.policy import Stateless, UnitView, tick_wait_ms


class Synchronous(Stateless):
    """A policy with one timer for all units of a worker."""

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        return tick_wait_ms(units[unit], now_ms)
