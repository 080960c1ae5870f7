"""A rollback of one unit that a person has asked for.

Source: docs/decisions/0086.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rollback:
    """Facts for a rollback of one unit.

    asked: offset of the last command in `jobs.submit`; -1: there was none.
    complete: the newest global checkpoint of its job, as in services/decisions/assigned.py.
    line: the line on which the unit begins again.
    ready: true if all units that send to it, and go back before it, have gone back.
    late: true if they have, and another global checkpoint is complete since, so that the frames resent may be trimmed.
    """

    asked: int = -1
    complete: int = -1
    line: int = 1
    ready: bool = True
    late: bool = False


NOWHERE = Rollback()
