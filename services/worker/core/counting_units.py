"""Selects the units that count when a job's sources are held back. A unit counts if it and all its upstream units run.

Source: PROTOCOL 3 and 10. A unit without a place, and all units that read its output, process nothing; other queries
continue. A unit that has a place again counts as soon as it is near the newest batch. The same holds for a unit that
has gone back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.services.worker.core import cut_rhythm

STILL_MS, SELDOM_STILL_MS = 300.0, 1_500.0
"""Time, in milliseconds, without progress of a unit that has input, after which the copy checks whether it has a place;
the second value is for jobs whose batches are far apart. A takeover is shorter, and sources with 10 ms a batch reach
their lead after twice the first value. Units with batches far apart seldom publish progress, and reach a lead of 64
batches much later."""


class CountingUnits:
    """The units of one job, in the view of one source task.

    Args:
        below: all units that read the output of a unit, directly or through others, by unit.

    Attributes:
        still_ms: STILL_MS or SELDOM_STILL_MS.
    """

    def __init__(self, below: Mapping[str, frozenset[str]]) -> None:
        self._below = below
        self.still_ms = STILL_MS
        self._behind: dict[str, tuple[int, float]] = {}
        """The last batch of each unit that has input to process, and the time since which it is the last."""
        self._reached: dict[str, int] = {}
        self._away: frozenset[str] = frozenset()
        self.out: frozenset[str] = frozenset()
        """The units that do not count."""

    def slowest(
        self, own: str, processed: Mapping[str, int], newest: int, now_ms: float, runs: Callable[[str], bool]
    ) -> int:
        """The lowest batch that a counting unit has processed.

        Args:
            own: the calling unit, which always holds back its own tasks.
            processed: last batch of each unit that has not ended.
            newest: newest batch that any source task has cut.
            now_ms: the present time.
            runs: True for a unit that runs or whose state is unknown; called only for units without progress.
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
            far = {unit for unit, batch in processed.items() if newest - batch >= cut_rhythm.MAX_LEAD_BATCHES}
            self._away = frozenset(unit for unit in still if not runs(unit)) | (self._away | gone_back) & far
            starved = frozenset().union(*(self._below.get(unit, ()) for unit in self._away))
            self.out = self._away | starved & processed.keys() | self.out & far
        return min((batch for unit, batch in processed.items() if unit == own or unit not in self.out), default=0)
