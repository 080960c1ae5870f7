"""Units that count when a job's sources are held back: a unit counts if it runs and all its upstream units run.

Source: PROTOCOL 3 and 10. A unit without a place, and all that reads what it would send, process nothing; the other
queries continue. Once it has a place again it counts as soon as it has come near. So does a unit that has gone back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.services.worker.core import cutting

STILL_MS, SELDOM_STILL_MS = 300.0, 1_500.0
"""A unit that processes nothing for so long, though there is something all the while, may have no place: then it is
asked whether it has. A takeover takes less, and sources of 10 ms a batch reach their lead after twice as long. While
batches are far apart units publish seldom what they have done, and a lead of 64 batches is reached much later."""


class Counting:
    """The units of one job, as one source task sees them.

    Args:
    below: by unit, all units that take in what comes of it, directly or through others.

    still_ms: STILL_MS, or SELDOM_STILL_MS.
    """

    def __init__(self, below: Mapping[str, frozenset[str]]) -> None:
        self._below, self.still_ms = below, STILL_MS
        self._behind: dict[str, tuple[int, float]] = {}
        """Batch of each unit that has something to process, and since when."""
        self._reached: dict[str, int] = {}
        self._away: frozenset[str] = frozenset()
        self.out: frozenset[str] = frozenset()
        """The units that do not count."""

    def slowest(
        self, own: str, processed: Mapping[str, int], newest: int, now_ms: float, runs: Callable[[str], bool]
    ) -> int:
        """The lowest batch that a unit which counts has processed.

        Args:
            own: the unit that asks, which holds back its own tasks always. processed: the last batch of each unit that
                has not ended. newest: that any source task has cut. runs: whether a unit is known to run, or nothing is
                known of it yet; asked only of units that process nothing.
        """
        known = self._behind
        behind = {unit: batch for unit, batch in processed.items() if batch < newest}
        self._behind = {
            unit: known[unit] if unit in known and known[unit][0] == batch else (batch, now_ms)
            for unit, batch in behind.items()
        }
        gone_back = {unit for unit, batch in processed.items() if batch < self._reached.get(unit, 0)}
        self._reached = dict(processed)
        still = {unit for unit, (_, since_ms) in self._behind.items() if now_ms - since_ms >= self.still_ms}
        if still or gone_back or self.out:
            far = {unit for unit, batch in processed.items() if newest - batch >= cutting.MAX_LEAD_BATCHES}
            self._away = frozenset(unit for unit in still if not runs(unit)) | (self._away | gone_back) & far
            starved = frozenset().union(*(self._below.get(unit, ()) for unit in self._away))
            self.out = self._away | starved & processed.keys() | self.out & far
        return min((batch for unit, batch in processed.items() if unit == own or unit not in self.out), default=0)
