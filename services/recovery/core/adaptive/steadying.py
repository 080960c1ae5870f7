"""Time since which a scheme has suited a unit better than the present scheme in every pass. Pure.

Source: docs/decisions/0101. Estimates change with the load of the machine, above all with the lateness of heartbeats:
in one pass a cheaper scheme keeps the promise, and in the next pass it does not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

COOL_DOWNS = 2
"""Number of cool-downs for which a scheme must have suited better before it is chosen."""


@dataclass(slots=True)
class Steady:
    """Times for one unit, its present scheme and its present leader."""

    _since_us: dict[str, int] = field(default_factory=dict)

    def look(self, better: Collection[str], now_us: int) -> None:
        """Takes the schemes that suit better in a pass at this time."""
        self._since_us = {scheme: self._since_us.get(scheme, now_us) for scheme in better}

    def found(self, now_us: int, cool_down_us: int) -> frozenset[str]:
        """Schemes that have suited better for long enough."""
        waits_us = COOL_DOWNS * cool_down_us
        return frozenset(scheme for scheme, since_us in self._since_us.items() if now_us - since_us >= waits_us)
