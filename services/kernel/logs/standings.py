"""The state of every unit and every goal, folded so that a snapshot can be written, checked and started from.

Source: PROTOCOL 1: a snapshot `{upto, state}` states the state after all records below `upto`; a late reader starts
there and applies the records from there. It is a fact: any process may write it, and a reader never
believes one that differs from what the log gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from schemas.assignments import STOP, Assignment, Change, Goal, GoalStanding, Snapshot, Standing
from services.kernel.logs.assigned import Assigned

KEPT_CHANGES = 1_000
"""Valid changes and goals that can be taken back: a snapshot says how units stood a little before it is read."""


@dataclass(slots=True)
class Standings:
    """The last valid change of each unit, the goal of each job, and their offsets.

    next: the first offset that is not folded. since: the fold began there, with a snapshot; below it nothing is known.
    snapshotted: `upto` of the newest snapshot that agrees.
    """

    assigned: Assigned = field(default_factory=Assigned)
    next: int = 0
    since: int = 0
    snapshotted: int = 0
    _offsets: dict[str, int] = field(default_factory=dict)
    _goals: dict[str, GoalStanding] = field(default_factory=dict)
    _before: deque[tuple[int, str, Standing | GoalStanding | None]] = field(
        default_factory=lambda: deque(maxlen=KEPT_CHANGES)
    )

    @classmethod
    def of(cls, snapshot: Snapshot) -> Standings:
        """The state in a snapshot."""
        offsets = {one.change.unit: one.offset for one in snapshot.units}
        assigned = Assigned(one.change for one in snapshot.units)
        goals = {one.goal.job_key: one for one in snapshot.goals}
        return cls(assigned, snapshot.upto, snapshot.upto, snapshot.upto, offsets, goals)

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
        for goal in record.goals:
            self._read_goal(offset, goal)
        return valid

    def _read_goal(self, offset: int, goal: Goal) -> None:
        """The first goal of a job counts until the first stop, which is final."""
        last = self._goals.get(goal.job_key)
        if goal.well_formed and (last is None or (last.goal.kind != STOP and goal.kind == STOP)):
            self._before.append((offset, goal.job_key, last))
            self._goals[goal.job_key] = GoalStanding(offset, goal)

    def goal(self, job_key: str) -> GoalStanding | None:
        """What is wanted of `<job>@<generation>`; None: nobody has said."""
        return self._goals.get(job_key)

    def of_unit(self, unit: str) -> Standing | None:
        change = self.assigned.of(unit)
        return None if change is None else Standing(self._offsets[unit], change)

    def snapshot(self) -> Snapshot:
        """After all that is folded."""
        units = _sorted(Standing(self._offsets[u], c) for u, c in self.assigned.units().items())
        return Snapshot(self.next, units, _sorted_goals(self._goals.values()))

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
        standing: dict[str, Standing | GoalStanding | None] = {u: self.of_unit(u) for u in self.assigned.units()}
        standing |= self._goals
        for offset, key, before in reversed(self._before):
            if offset < snapshot.upto:
                break
            standing[key] = before
        known = list(standing.values())
        units = _sorted(one for one in known if isinstance(one, Standing))
        goals = _sorted_goals(one for one in known if isinstance(one, GoalStanding))
        return (units, goals) == (snapshot.units, snapshot.goals)

    @property
    def _lowest(self) -> int:
        """The lowest offset as of which the state is known."""
        return self._before[0][0] + 1 if len(self._before) == KEPT_CHANGES else self.since


def plausible(snapshot: Snapshot, offset: int) -> bool:
    """Whether a snapshot found at an offset may be true, as far as can be seen without the records below it."""
    keys = [one.change.unit for one in snapshot.units] + [one.goal.job_key for one in snapshot.goals]
    return (
        0 <= snapshot.upto <= offset
        and len(keys) == len(set(keys))
        and all(0 <= one.offset < snapshot.upto for one in snapshot.units)
        and all(one.change.epoch > 0 and one.change.well_formed for one in snapshot.units)
        and all(0 <= one.offset < snapshot.upto and one.goal.well_formed for one in snapshot.goals)
    )


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


def _sorted_goals(goals: Iterable[GoalStanding]) -> tuple[GoalStanding, ...]:
    return tuple(sorted(goals, key=lambda one: one.goal.job_key))
