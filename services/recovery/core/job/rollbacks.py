"""Rollbacks that users have asked for, and where a unit would go back to.

Source: docs/decisions/0086.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from holdfast.schemas.assignments import job_key_of
from holdfast.services.decisions.assigned import Assigned


@dataclass(frozen=True, slots=True)
class Back:
    """Facts for a rollback of one unit.

    asked: offset of the last command in `jobs.submit`; -1: there was none.
    complete: the newest global checkpoint of its job, as in services/decisions/assigned.py.
    line: that no unit of its job is on yet.
    ready: all that send to it, and are to go back before it, have.
    late: they have, and since then another global checkpoint is complete: what they have sent again may be trimmed.
    """

    asked: int = -1
    complete: int = -1
    line: int = 1
    ready: bool = True
    late: bool = False


NOWHERE = Back()


class Rollbacks:
    """By unit."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}

    def ask(self, units: Sequence[str], offset: int) -> Sequence[str]:
        """A command at this offset."""
        self._asked.update({unit: max(offset, self._asked.get(unit, -1)) for unit in units})
        return units

    def forget(self, unit: str) -> None:
        """Its job has ended."""
        self._asked.pop(unit, None)

    def of(self, unit: str, assigned: Assigned, above: Callable[[], Iterable[str]] = tuple) -> Back:
        """above: the units that are to go back before it, in order that it gets again what they have sent since."""
        job, asked, own = job_key_of(unit), self._asked.get(unit, -1), assigned.of(unit)
        if asked <= (-1 if own is None else own.rolled):
            return Back(asked, assigned.complete(job), assigned.line(job) + 1)
        newest, complete, last = assigned.checkpoint(job), assigned.complete(job), assigned.line(job)
        held = 0 if newest is None else newest.line
        found = [change for one in above() if (change := assigned.of(one)) is not None and change.copies]
        apart = [change for change in found if change.back != complete or change.line <= held]
        late = bool(apart) and all(change.rolled >= asked for change in apart)
        joins = bool(found) and not apart and (own is None or own.line < last)
        return Back(asked, complete, last if joins else last + 1, not apart, late=late)
