"""Crashes of workers at the work of a unit, counted from the work that exit notices name.

Source: PROTOCOL 8, docs/decisions/0061. A worker that is killed from outside was at some unit's batch, too, so one
crash is no proof: the next copy processes the same batch, and once the unit has passed that batch, the crash is
forgotten. A unit that ends every worker never passes that batch. An unexpected error that stops one copy, and not its
worker, counts in the same way: decision 0124.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace

from holdfast.schemas.assignments import Deadly
from holdfast.schemas.heartbeats import FAULTED, LINE, At, CopyState, Exit, Heartbeat, HeartbeatRecord

MOST_CRASHES = 3
"""Number of crashes in a row at the same place that is no chance."""
MOST_FAULTS = 5
"""Number of unexpected errors that is no chance: they cost no worker, and their cause may take a while to pass."""
OF_LOADING = ("loading", "restoring")
"""Work at which a copy may end before it runs."""
LOADING_MS = 600_000
"""Longest time between two crashes in a row outside a batch, while a copy was loaded, restored or filled the memory.
Crashes of a unit that survives its loads are soon further apart."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Crashes of one unit.

    batch: the batch at which its workers ended; 0: other work for it.
    what: the kind of that work.
    count: number of crashes in a row.
    worker: the worker of the last crash.
    status: exit status of that worker; None until it is known.
    time_ms: time of the last crash.
    since_us: time at which this replica read the last crash.
    error: the unexpected error that stopped a copy; empty: its worker ended.
    """

    batch: int
    what: str
    count: int
    worker: str
    status: int | None
    time_ms: int
    since_us: int
    error: str = ""

    @property
    def too_many(self) -> bool:
        """True if the crashes are no chance any more."""
        return self.count >= (MOST_FAULTS if self.error else MOST_CRASHES)

    @property
    def by_itself(self) -> bool:
        """True if the last worker ended itself or by an error of its own, not by SIGKILL."""
        return self.status is not None and self.status != -signal.SIGKILL

    @property
    def deadly(self) -> Deadly:
        """The crash as it is written in the record of a quarantine."""
        return Deadly(self.count, self.worker, self.batch, self.what, error=self.error)


class Crashes:
    """Crashes by unit, a fold of `heartbeats`."""

    def __init__(self) -> None:
        self._crashes: dict[str, Crash] = {}
        self._counted: dict[str, str] = {}
        self._faults: dict[tuple[str, str], tuple[str, int]] = {}

    def read(self, record: HeartbeatRecord, now_us: int) -> list[str]:
        """Takes a record; returns the units for which it changes the crashes."""
        if isinstance(record, Exit):
            return self._ended(record, now_us)
        passed = [copy.unit for copy in record.copies if self._passed(copy, record.time_ms)]
        for unit in passed:
            del self._crashes[unit]
        faults = [copy.unit for copy in record.copies if copy.state == FAULTED and self._fault(copy, record, now_us)]
        return passed + faults

    def of(self, unit: str) -> Crash | None:
        """Returns the crashes of the unit; None if no worker ended at its work, or it has come further since."""
        return self._crashes.get(unit)

    def forget(self, unit: str) -> None:
        """Forgets a unit whose job has ended."""
        self._crashes.pop(unit, None)
        for one in [one for one in self._faults if one[0] == unit]:
            del self._faults[one]

    def _passed(self, copy: CopyState, time_ms: int) -> bool:
        """True if the unit has passed the batch of its crash, or its last crash at loading is long ago."""
        known = self._crashes.get(copy.unit)
        if known is None or copy.state == FAULTED:
            return False
        return 0 < known.batch <= copy.batch or (not known.batch and time_ms - known.time_ms > LOADING_MS)

    def _fault(self, copy: CopyState, record: Heartbeat, now_us: int) -> bool:
        """Counts the error of a copy once per assignment, however many heartbeats report it; True if it is new."""
        one = record.incarnation, copy.epoch
        if self._faults.get((copy.unit, record.worker)) == one:
            return False
        self._faults[copy.unit, record.worker] = one
        at = At(copy.unit, copy.batch + 1) if copy.batch else At(copy.unit, 0, "loading")
        self._crashes[copy.unit] = replace(self._next(at, record, now_us), error=copy.error)
        return True

    def _ended(self, record: Exit, now_us: int) -> list[str]:
        """Counts the end of an incarnation once, however many notices report it; returns the units concerned."""
        counted = self._counted.get(record.worker, "")
        if not record.at or counted > record.incarnation:
            return []
        if counted == record.incarnation:
            return self._known_status(record)
        self._counted[record.worker] = record.incarnation
        stable = [at for at in record.at if at.what != LINE]
        for at in stable:
            self._crashes[at.unit] = self._next(at, record, now_us)
        return [at.unit for at in stable]

    def _known_status(self, record: Exit) -> list[str]:
        units = [at.unit for at in record.at if not record.dying and at.unit in self._crashes]
        for unit in units:
            if self._crashes[unit].worker == record.worker:
                self._crashes[unit] = replace(self._crashes[unit], status=record.status)
        return units

    def _next(self, at: At, record: HeartbeatRecord, now_us: int) -> Crash:
        known = self._crashes.get(at.unit)
        same = known is not None and (known.batch, known.what) == (at.batch, at.what)
        if known is not None and not at.batch and record.time_ms - known.time_ms > LOADING_MS:
            same = False
        count = known.count + 1 if known is not None and same else 1
        status = record.status if isinstance(record, Exit) and not record.dying else None
        return Crash(at.batch, at.what, count, record.worker, status=status, time_ms=record.time_ms, since_us=now_us)
