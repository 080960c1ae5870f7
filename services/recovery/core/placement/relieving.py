"""Moves one unit at a time off a worker with more than its share, while all is calm. Times are microseconds.

Source: PROTOCOL 8, docs/decisions/0040. balancing.py chooses unit and worker; unit/rules/moving.py carries out the
move.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from holdfast.services.recovery.core.placement.balancing import Host, Placement, Relief, balance

LOOK_US = 1_000_000
"""Time between two searches for a move in a calm cluster that needs none; only workers and time can change that."""

Survey = Callable[[], tuple[Iterable[Placement], Iterable[Host]]]


@dataclass(slots=True)
class Relieving:
    """Moves for balance by one replica.

    calm_us: time for which all must have been calm; None: no unit ever moves for balance.
    """

    calm_us: int | None = None
    _relief: Relief | None = None
    _next_us: int = 0
    _moved_us: dict[str, int] = field(default_factory=dict)

    def moved(self, unit: str, now_us: int) -> None:
        """Takes a valid record that moves the unit for balance."""
        self._moved_us[unit] = now_us

    def rested(self, unit: str, period_us: int, now_us: int) -> bool:
        """True if the unit has not moved for balance within the period."""
        return now_us - self._moved_us.get(unit, -period_us) >= period_us

    def forget(self, unit: str) -> None:
        self._moved_us.pop(unit, None)

    @property
    def concerned(self) -> Collection[str]:
        """The unit that is to move, if one is."""
        return () if self._relief is None else (self._relief.unit,)

    def wanted(self, unit: str) -> str:
        """The worker to which the unit is to move now."""
        return self._relief.worker if self._relief is not None and self._relief.unit == unit else ""

    def look(self, now_us: int, calm: Callable[[int], bool], survey: Survey) -> str:
        """Returns the unit that is to move; empty if none is. It stays the same until `done`.

        calm: true if all has been calm for the given time.
        """
        if self.calm_us is None or now_us < self._next_us:
            return ""
        quiet = calm(self.calm_us)
        self._relief = balance(*survey(), calm=True) if quiet else None
        if self._relief is None and quiet:
            self._next_us = now_us + LOOK_US
        return "" if self._relief is None else self._relief.unit

    def done(self) -> None:
        self._relief = None
