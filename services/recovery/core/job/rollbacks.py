"""Rollbacks that users have asked for, and where a unit would go back to.

Source: docs/decisions/0086.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.assignments import job_key_of
from services.kernel.logs.assigned import Assigned


@dataclass(frozen=True, slots=True)
class Back:
    """Of one unit. asked: offset of the last command in `jobs.submit`; -1: there was none.

    complete: the newest global checkpoint of its job, as in services/kernel/logs/assigned.py. line: that no unit of its
    job is on yet.
    """

    asked: int = -1
    complete: int = -1
    line: int = 1


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

    def of(self, unit: str, assigned: Assigned) -> Back:
        job = job_key_of(unit)
        return Back(self._asked.get(unit, -1), assigned.complete(job), assigned.line(job) + 1)
