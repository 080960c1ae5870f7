"""Restarts: how soon a process that ended is started again. At once, unless it keeps ending soon after its start."""

from __future__ import annotations

STEADY_S = 10.0
"""A process that ran for so long did not fail because of how it was started."""
DELAYS_S = (0.2, 0.5, 1.0, 2.0, 5.0)


class Restarts:
    """The restarts of one process.

    count: number of restarts.
    """

    def __init__(self) -> None:
        self.count = 0
        self._quick = 0

    def delay_s(self, lived_s: float) -> float:
        """Time to wait now that it has ended after `lived_s`."""
        self.count += 1
        if lived_s >= STEADY_S:
            self._quick = 0
            return 0.0
        self._quick += 1
        return DELAYS_S[min(self._quick, len(DELAYS_S)) - 1]
