"""Rollbacks that users have asked for, and the checkpoint that a unit would go back to.

Source: docs/decisions/0086.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from holdfast.schemas.assignments import job_key_of
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.unit.facts.rollback import Rollback


class Rollbacks:
    """Offset of the last command for a rollback, by unit."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}

    def ask(self, units: Sequence[str], offset: int) -> Sequence[str]:
        """Takes a command at this offset; returns the units that it concerns."""
        self._asked.update({unit: max(offset, self._asked.get(unit, -1)) for unit in units})
        return units

    def forget(self, unit: str) -> None:
        """Forgets a unit whose job has ended."""
        self._asked.pop(unit, None)

    def of(self, unit: str, assigned: Assigned, above: Callable[[], Iterable[str]] = tuple) -> Rollback:
        """Returns the facts for a rollback of the unit.

        above: the units that go back before it, so that it receives again the frames that they sent since.
        """
        job, asked, own = job_key_of(unit), self._asked.get(unit, -1), assigned.of(unit)
        if asked <= (-1 if own is None else own.rolled):
            return Rollback(asked, assigned.complete(job), assigned.line(job) + 1)
        newest, complete, last = assigned.checkpoint(job), assigned.complete(job), assigned.line(job)
        held = 0 if newest is None else newest.line
        found = [change for one in above() if (change := assigned.of(one)) is not None and change.copies]
        apart = [change for change in found if change.back != complete or change.line <= held]
        late = bool(apart) and all(change.rolled >= asked for change in apart)
        joins = bool(found) and not apart and (own is None or own.line < last)
        return Rollback(asked, complete, last if joins else last + 1, not apart, late=late)
