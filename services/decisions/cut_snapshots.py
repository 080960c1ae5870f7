"""Snapshots in the cut log: their validity, and the state with which a reader of a trimmed log begins.

A snapshot is written among the cuts and states the state of the log a little before. A reader of both checks that. The
log is trimmed only up to a snapshot that was read back as valid, so it always begins with a state that a reader can
take over. Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec import structs

from holdfast.schemas.cuts import CutRecord, CutsSnapshot, KnownSnapshot, Leading, Snapshot, TaskCuts

KEPT_CUTS = 1_024
"""Number of valid records that can be taken back: a snapshot states the log a little before it is read."""
MOST_KNOWN = 32
"""Number of snapshots that a reader keeps; the log is trimmed to one of them."""


class Snapshots:
    """Snapshots of one cut log, as one reader follows it.

    known: the newest valid snapshots, in order.
    """

    def __init__(self, start: CutsSnapshot) -> None:
        self.known: tuple[KnownSnapshot, ...] = start.snapshots
        self._since = start.upto
        self._before: deque[tuple[int, str, TaskCuts | Leading | None]] = deque()

    def cut(self, offset: int, task: str, before: TaskCuts) -> None:
        """Takes a valid cut at this offset.

        before: the task's last cut.
        """
        self._change(offset, task, before)

    def led(self, offset: int, unit: str, before: Leading | None) -> None:
        """Takes a valid record of a unit's leader at this offset.

        before: the unit's leader before the record.
        """
        self._change(offset, unit, before)

    def _change(self, offset: int, name: str, before: TaskCuts | Leading | None) -> None:
        if len(self._before) == KEPT_CUTS:
            self._since = self._before.popleft()[0] + 1
        self._before.append((offset, name, before))

    def turned(self, offset: int) -> None:
        """Takes another valid record, after which the earlier state of the log is not known any more."""
        self._before.clear()
        self._since = offset + 1

    def read(self, record: Snapshot, now: CutsSnapshot) -> bool:
        """Takes a snapshot; True if it is known to be valid.

        now: the state at which it was read.
        """
        state = record.state
        if not self._since <= state.upto <= now.upto or (self.known and state.upto <= self.known[-1].upto):
            return False
        if structs.replace(state, snapshots=()) != self._as_of(state.upto, now):
            return False
        self.known = (*self.known, KnownSnapshot(state.upto, record.time_ms))[-MOST_KNOWN:]
        return True

    def _as_of(self, upto: int, now: CutsSnapshot) -> CutsSnapshot:
        tasks, leads = dict(now.tasks), dict(now.leads)
        for offset, name, before in reversed(self._before):
            if offset < upto:
                break
            if isinstance(before, TaskCuts):
                tasks[name] = before
            elif before is not None:
                leads[name] = before
            else:
                leads.pop(name)
        return structs.replace(now, upto=upto, tasks=tasks, snapshots=(), leads=leads)


def plausible(record: Snapshot, offset: int, start: int, tasks: Iterable[str]) -> bool:
    """True if a log that starts at `start` may begin with this snapshot, found at an offset.

    tasks: of the job.
    """
    return start <= record.state.upto <= offset and record.state.tasks.keys() == set(tasks)


def base_of(records: Iterable[tuple[int, CutRecord]], start: int, beginning: CutsSnapshot) -> CutsSnapshot | None:
    """Returns the state of the first snapshot, with which a trimmed log begins; None if the log holds no snapshot.

    The log was trimmed up to a valid snapshot, so the first one that reaches its start is that one, or as good.

    Args:
        records: by offset, from the log start on.
        beginning: state of the log before its first record.
    """
    if start == 0:
        return beginning
    found = (
        record.state
        for offset, record in records
        if isinstance(record, Snapshot) and plausible(record, offset, start, beginning.tasks)
    )
    return next(found, None)


def newest_in(state: CutsSnapshot) -> int:
    """Returns the highest batch that any source task had cut."""
    return max((cuts.batch for cuts in state.tasks.values()), default=0)
