"""Which copies each unit has, as every reader of `assignments` folds it.

Source: PROTOCOL 8: a change is valid iff its epoch is the unit's last + 1 and it is well formed, so that whatever
anybody appends, `commit` is on at exactly one copy of every placed unit. Of a retired generation none is valid: its
units are forgotten, and without that rule an old placement would count as a first one (PROTOCOL 1).
"""

from __future__ import annotations

from collections.abc import Iterable

from schemas.assignments import Assignment, Change, generation_of
from schemas.retired import Retired


class Assigned:
    """The last valid change of each unit. units, retired: what the fold begins with."""

    def __init__(self, units: Iterable[Change] = (), retired: Retired = Retired()) -> None:  # noqa: B008
        self._units = {change.unit: change for change in units}
        self.retired = retired

    def become(self, other: Assigned) -> None:
        """Takes the state of another fold, for those who hold this one."""
        self._units, self.retired = other.units(), other.retired

    def read(self, record: Assignment) -> list[Change]:
        """Takes one record; returns the changes in it that are valid."""
        valid = []
        for change in record.changes:
            follows = change.epoch == self.epoch(change.unit) + 1 and change.well_formed
            if follows and not self.retired.has(generation_of(change.unit)):
                self._units[change.unit] = change
                valid.append(change)
        if record.retired is not None:
            self._retire(record.retired)
        return valid

    def _retire(self, retired: Retired) -> None:
        held = {generation_of(unit) for unit, change in self._units.items() if change.copies}
        self.retired = self.retired.joined(retired, held)
        gone = [unit for unit in self._units if self.retired.has(generation_of(unit))]
        for unit in gone:
            del self._units[unit]

    def epoch(self, unit: str) -> int:
        """The unit's last epoch, 0 before the first."""
        change = self._units.get(unit)
        return 0 if change is None else change.epoch

    def of(self, unit: str) -> Change | None:
        return self._units.get(unit)

    def units(self) -> dict[str, Change]:
        return dict(self._units)

    def of_incarnation(self, worker: str, incarnation: str) -> dict[str, Change]:
        """The units that this incarnation of a worker is to hold a copy of."""
        return {
            unit: change
            for unit, change in self._units.items()
            if any(copy.worker == worker and copy.incarnation == incarnation for copy in change.copies)
        }
