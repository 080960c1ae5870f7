"""Moves of standbys to other workers: planned once a rebalance period, and carried out a few at a time.

Source: MECHANISMS C7, docs/decisions/0088. The unit's own table (unit/table/switching.py) carries out each move.
Several replicas may plan at once: they read the same heartbeats, and of two records for one standby the log counts one.
Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.schemas.assignments import Change
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.kernel.protection.reassigning import HALF, LITERAL, Backed, reassigned
from holdfast.services.recovery.core.placement.upkeep import Upkeep

SHARES: Mapping[str, float | None] = {"half": HALF, "literal": LITERAL, "off": None}
"""Share of the difference that moves, by the name in the settings; None: no standby moves."""

LEAST_MS = 50.0
"""Least difference in expected recovery between two groups: a new standby reads a whole checkpoint log."""

MOST = 4
"""Largest number of standbys that are made beside their former ones at once."""

Survey = Callable[[Upkeep], tuple[Sequence[Backed], Collection[str]]]
"""The units with a standby that follows checkpoints, and the workers that may hold standbys."""


@dataclass(slots=True)
class Reassignment:
    """Reassignment of standbys by one replica.

    share: share of the difference between two backup groups that moves; None: no standby moves.
    least_ms: see LEAST_MS.
    """

    share: float | None = HALF
    least_ms: float = LEAST_MS
    upkeep: Upkeep = field(default_factory=Upkeep)
    _began_us: int = 0
    _wanted: dict[str, str] = field(default_factory=dict)
    _under_way: set[str] = field(default_factory=set)
    _moved_us: dict[str, int] = field(default_factory=dict)

    def read(self, beat: Heartbeat) -> None:
        if self.share is not None:
            self.upkeep.read(beat.worker, beat.incarnation, beat.costs)

    def begin(self, now_us: int) -> None:
        """Begins a period: the replica starts to act, or some replica has moved a standby."""
        self._began_us = now_us
        self.upkeep.restart()

    def proposed(self, change: Change) -> None:
        """Takes a record that this replica has proposed, valid or not."""
        if change.backing:
            self._under_way.add(change.unit)

    def withdrawn(self, unit: str, last: Change | None) -> None:
        """Takes back a proposal that was not appended.

        last: the valid record of the unit.
        """
        if last is None or not last.backing:
            self._under_way.discard(unit)

    def decided(self, change: Change, now_us: int) -> None:
        """Takes a valid record, which makes the plan for the unit out of date."""
        self._wanted.pop(change.unit, None)
        self._under_way.discard(change.unit)
        if change.replacing is not None:
            self._under_way.add(change.unit)
            self._moved_us[change.unit] = now_us
            self.begin(now_us)

    def rested(self, unit: str, period_us: int, now_us: int) -> bool:
        """True if the unit's standby has not moved within the period."""
        return now_us - self._moved_us.get(unit, -period_us) >= period_us

    def forget(self, unit: str) -> None:
        self._wanted.pop(unit, None)
        self._under_way.discard(unit)
        self._moved_us.pop(unit, None)

    def want(self, unit: str, worker: str) -> None:
        """Plans a move of the unit's standby to this worker."""
        self._wanted[unit] = worker

    @property
    def concerned(self) -> Collection[str]:
        """Units whose standby is to move now."""
        return [unit for unit in self._wanted if self.wanted(unit)]

    def wanted(self, unit: str) -> str:
        """Returns the worker to which the unit's standby is to move; empty if it stays, or if MOST standbys move
        already.
        """
        full = len(self._under_way) >= MOST and unit not in self._under_way
        return "" if full else self._wanted.get(unit, "")

    def look(self, now_us: int, period_us: int, survey: Survey) -> None:
        """Plans moves of standbys if the period is over."""
        if self.share is None or now_us - self._began_us < period_us:
            return
        units, workers = survey(self.upkeep)
        self._wanted = {one.unit: one.to for one in reassigned(units, workers, self.share, self.least_ms)}
        self.begin(now_us)
