"""Which unit's work ended its workers: counted from what exit notices say that a process was at.

Source: PROTOCOL 8, docs/decisions/0061. A worker that is killed from outside was at some unit's batch, too, so one
crash says nothing: the next copy does the same batch, the unit has come further, and the crash is forgotten. A unit
that ends every worker never comes past that batch.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace

from schemas.assignments import Deadly
from schemas.heartbeats import At, Exit, HeartbeatRecord

MOST_CRASHES = 3
"""So many in a row at the same place are no chance."""
OF_LOADING = ("loading", "restoring")
"""What a copy may die of before it runs."""
LOADING_MS = 600_000
"""Crashes that are of no batch, while a copy was loaded, restored or filled the memory, are in a row if no more than
this lies between two of them: what is loaded again and again, and survives it, is soon far apart."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Of one unit. batch: at which its workers ended; 0: what else they did for it. count: in a row. worker: the last.

    status: its exit status, None until that is known. time_ms: of the last. since_us: it was read.
    """

    batch: int
    what: str
    count: int
    worker: str
    status: int | None
    time_ms: int
    since_us: int

    @property
    def by_itself(self) -> bool:
        """The last one ended itself, or made an error of which the kernel ended it: no signal from outside did."""
        return self.status is not None and self.status != -signal.SIGKILL

    @property
    def deadly(self) -> Deadly:
        """As the record of a quarantine has it."""
        return Deadly(self.count, self.worker, self.batch, self.what)


class Crashes:
    """Folds `heartbeats`."""

    def __init__(self) -> None:
        self._crashes: dict[str, Crash] = {}
        self._counted: dict[str, str] = {}

    def read(self, record: HeartbeatRecord, now_us: int) -> list[str]:
        """Takes a record; the units of which it says anything new."""
        if isinstance(record, Exit):
            return self._ended(record, now_us)
        passed = [copy.unit for copy in record.copies if self._passed(copy.unit, copy.batch)]
        for unit in passed:
            del self._crashes[unit]
        return passed

    def of(self, unit: str) -> Crash | None:
        """None: it has come further than where a worker ended, or none has ended at its work."""
        return self._crashes.get(unit)

    def forget(self, unit: str) -> None:
        """Its job has ended."""
        self._crashes.pop(unit, None)

    def _passed(self, unit: str, batch: int) -> bool:
        known = self._crashes.get(unit)
        return known is not None and 0 < known.batch <= batch

    def _ended(self, record: Exit, now_us: int) -> list[str]:
        """An incarnation ends once, however many notices say so."""
        counted = self._counted.get(record.worker, "")
        if not record.at or counted > record.incarnation:
            return []
        if counted == record.incarnation:
            return self._known_status(record)
        self._counted[record.worker] = record.incarnation
        for at in record.at:
            self._crashes[at.unit] = self._next(at, record, now_us)
        return [at.unit for at in record.at]

    def _known_status(self, record: Exit) -> list[str]:
        units = [at.unit for at in record.at if not record.dying and at.unit in self._crashes]
        for unit in units:
            if self._crashes[unit].worker == record.worker:
                self._crashes[unit] = replace(self._crashes[unit], status=record.status)
        return units

    def _next(self, at: At, record: Exit, now_us: int) -> Crash:
        known = self._crashes.get(at.unit)
        same = known is not None and (known.batch, known.what) == (at.batch, at.what)
        if known is not None and not at.batch and record.time_ms - known.time_ms > LOADING_MS:
            same = False
        count = known.count + 1 if known is not None and same else 1
        status = None if record.dying else record.status
        return Crash(at.batch, at.what, count, record.worker, status, record.time_ms, now_us)
