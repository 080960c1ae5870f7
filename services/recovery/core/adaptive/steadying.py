"""Since when a scheme has suited a unit better than the present one, in every look. Pure.

Source: docs/decisions/0101. An estimate moves with the load of the machine, most of all how late heartbeats are: of two
looks one says that a cheaper scheme keeps the promise, and the next one that it does not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

COOL_DOWNS = 2
"""For so many cool-downs in a row a scheme must have suited better before it is taken."""


@dataclass(slots=True)
class Steady:
    """Counts of one unit, its present scheme and its present leader."""

    _since_us: dict[str, int] = field(default_factory=dict)

    def look(self, better: Collection[str], now_us: int) -> None:
        """better: the schemes that suit better, in a look at this time."""
        self._since_us = {scheme: self._since_us.get(scheme, now_us) for scheme in better}

    def found(self, now_us: int, cool_down_us: int) -> frozenset[str]:
        """Schemes that have suited better for long enough."""
        waits_us = COOL_DOWNS * cool_down_us
        return frozenset(scheme for scheme, since_us in self._since_us.items() if now_us - since_us >= waits_us)
