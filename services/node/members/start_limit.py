"""The time that a start may take: a process that still loads is not given up, and one that hangs is."""

from __future__ import annotations

from collections.abc import Mapping

LOADS_S = 0.2
"""A process that has taken so much of a processor since it was looked at is loading: starved, not hanging."""
MOST = 5
"""Time-outs at most, whatever a process does: one that computes for ever never gets ready."""


class StartLimit:
    """The time-out of a start, which begins again with each progress of the parts that it waits for."""

    def __init__(self, now_s: float, limit_s: float) -> None:
        self._limit_s = limit_s
        self._until_s = now_s + limit_s
        self._left = MOST - 1
        self._spent_s: Mapping[str, float] = {}

    def over(self, now_s: float, spent_s: Mapping[str, float]) -> bool:
        """True once the start has no hope of success.

        spent_s: processor time so far, in seconds, by process that the start waits for.
        """
        if now_s <= self._until_s:
            return False
        loads = all(spent - self._spent_s.get(name, 0.0) >= LOADS_S for name, spent in spent_s.items())
        if not loads or not self._left:
            return True
        self._left -= 1
        self._until_s = now_s + self._limit_s
        self._spent_s = dict(spent_s)
        return False
