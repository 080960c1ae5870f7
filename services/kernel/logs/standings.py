"""The state of every unit, folded so that a snapshot of it can be written, checked and started from.

Source: PROTOCOL 1: a snapshot `{upto, state}` states the state after all records below `upto`; a late reader starts
there and applies the records from there. It is a fact: any process may write it, and a reader never
believes one that differs from what the log gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from schemas.assignments import Assignment, Change, Snapshot, Standing
from services.kernel.logs.assigned import Assigned

KEPT_CHANGES = 1_000
"""Valid changes that can be taken back: a snapshot says how units stood a little before it is read."""


@dataclass(slots=True)
class Standings:
    """The last valid change of each unit and its offset.

    next: the first offset that is not folded. since: the fold began there, with a snapshot; below it nothing is known.
    snapshotted: `upto` of the newest snapshot that agrees.
    """

    assigned: Assigned = field(default_factory=Assigned)
    next: int = 0
    since: int = 0
    snapshotted: int = 0
    _offsets: dict[str, int] = field(default_factory=dict)
    _before: deque[tuple[int, str, Standing | None]] = field(default_factory=lambda: deque(maxlen=KEPT_CHANGES))

    @classmethod
    def of(cls, snapshot: Snapshot) -> Standings:
        """The state in a snapshot."""
        offsets = {one.change.unit: one.offset for one in snapshot.units}
        assigned = Assigned(one.change for one in snapshot.units)
        return cls(assigned, snapshot.upto, snapshot.upto, snapshot.upto, offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def read(self, offset: int, record: Assignment) -> list[Change]:
        """Takes the record at an offset; the changes in it that are valid. What was read before changes nothing."""
        if offset < self.next:
            return []
        self.next = offset + 1
        before = {change.unit: self.of_unit(change.unit) for change in record.changes}
        valid = self.assigned.read(record)
        for change in valid:
            self._before.append((offset, change.unit, before[change.unit]))
            before[change.unit] = Standing(offset, change)
            self._offsets[change.unit] = offset
        return valid

    def of_unit(self, unit: str) -> Standing | None:
        change = self.assigned.of(unit)
        return None if change is None else Standing(self._offsets[unit], change)

    def snapshot(self) -> Snapshot:
        """After all that is folded."""
        return Snapshot(self.next, _sorted(Standing(self._offsets[u], c) for u, c in self.assigned.units().items()))

    def check(self, offset: int, snapshot: Snapshot) -> bool | None:
        """Whether the one at this offset, up to which all is folded, says what the log gives.

        None for one of before all that is known here; one that speaks of what comes behind it does not.
        """
        agrees = self._agrees(snapshot) if snapshot.upto <= offset else False
        if agrees:
            self.snapshotted = max(self.snapshotted, snapshot.upto)
        return agrees

    def _agrees(self, snapshot: Snapshot) -> bool | None:
        if snapshot.upto < max(self.since, self._lowest):
            return None
        standing = {unit: self.of_unit(unit) for unit in self.assigned.units()}
        for offset, unit, before in reversed(self._before):
            if offset < snapshot.upto:
                break
            standing[unit] = before
        return _sorted(one for one in standing.values() if one is not None) == snapshot.units

    @property
    def _lowest(self) -> int:
        """The lowest offset as of which the state is known."""
        return self._before[0][0] + 1 if len(self._before) == KEPT_CHANGES else self.since


def plausible(snapshot: Snapshot, offset: int) -> bool:
    """Whether a snapshot found at an offset may be true, as far as can be seen without the records below it."""
    units = [one.change.unit for one in snapshot.units]
    return 0 <= snapshot.upto <= offset and len(units) == len(set(units)) and all(
        0 <= one.offset < snapshot.upto and one.change.epoch > 0 and one.change.well_formed for one in snapshot.units
    )  # fmt: skip


def begun(records: Iterable[tuple[int, Assignment]], base: Snapshot) -> Standings | None:
    """Folds the records of a log from a snapshot on; None if one among them differs: then none is to be believed.

    Args:
        records: by offset, all from the snapshot's `upto` on.
    """
    standings = Standings.of(base)
    for offset, record in records:
        if record.snapshot is not None and standings.check(offset, record.snapshot) is False:
            return None
        standings.read(offset, record)
    return standings


def base_of(found: Sequence[tuple[int, Snapshot]], start: int) -> Snapshot | None:
    """The snapshot to begin with, of those found by offset where all records from `start` on are known.

    The last but one, where there are two: the last is compared with what the records behind it give, so that a single
    one that is forged or mistaken is found out.
    """
    usable = [snapshot for offset, snapshot in found if snapshot.upto >= start and plausible(snapshot, offset)]
    return usable[max(len(usable) - 2, 0)] if usable else None


def _sorted(units: Iterable[Standing]) -> tuple[Standing, ...]:
    return tuple(sorted(units, key=lambda one: one.change.unit))
