"""Which copies each unit has, as every reader of `assignments` folds it.

Source: PROTOCOL 8: a change is valid iff its epoch is the unit's last + 1 and it is well formed, so that whatever
anybody appends, `commit` is on at exactly one copy of every placed unit.
"""

from __future__ import annotations

from collections.abc import Iterable

from schemas.assignments import Assignment, Change


class Assigned:
    """The last valid change of each unit. units: the last valid changes that the fold begins with."""

    def __init__(self, units: Iterable[Change] = ()) -> None:
        self._units = {change.unit: change for change in units}

    def read(self, record: Assignment) -> list[Change]:
        """Takes one record; returns the changes in it that are valid."""
        valid = []
        for change in record.changes:
            if change.epoch == self.epoch(change.unit) + 1 and change.well_formed:
                self._units[change.unit] = change
                valid.append(change)
        return valid

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
