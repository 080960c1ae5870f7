"""All units of a worker capture at the same ticks of one timer: one of the two baselines that sweeps are compared with.

Source: MECHANISMS S4, where the name stands for one timer a unit (policy `individual` here). Each unit captures in its
own turn, so the captures of a tick lie one turn of the loop apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.services.worker.checkpoint.policies.policy import Stateless, UnitView, tick_wait_ms


class Synchronous(Stateless):
    """Implements Policy."""

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        return tick_wait_ms(units[unit], now_ms)
