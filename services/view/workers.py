"""The workers of a cluster as their heartbeats show them: each one's newest incarnation, its state, its copies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.schemas.heartbeats import CopyState, Echo, Exit, Heartbeat
from holdfast.services.view.lines import CopyLine, WorkerLine

SILENT_MS = 1000
"""Milliseconds without a heartbeat after which a worker is shown as silent."""


class Worker(msgspec.Struct):
    """The newest incarnation of a worker; incarnations of a worker sort in the order of their start."""

    beat: Heartbeat
    exited: bool = False
    by_unit: dict[str, CopyState] | None = None

    def take(self, beat: Heartbeat) -> None:
        self.beat = beat
        self.by_unit = None

    def copy(self, unit: str) -> CopyState | None:
        """Returns the copy of a unit in the last heartbeat; None if there is none. Indexed, because a large job asks
        for each copy.
        """
        if self.by_unit is None:
            self.by_unit = {one.unit: one for one in self.beat.copies}
        return self.by_unit.get(unit)

    def state(self, now_ms: int) -> str:
        if self.exited:
            return "exited"
        if now_ms - self.beat.time_ms > SILENT_MS:
            return "silent"
        if self.beat.stuck:
            return "stuck"
        return "leaving" if self.beat.leaving else "live"


class Workers:
    """The workers with a heartbeat among the records read."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}

    def read(self, record: Heartbeat | Exit | Echo) -> None:
        """Folds a record of `heartbeats`."""
        if isinstance(record, Echo):
            return
        known = self._workers.get(record.worker)
        if isinstance(record, Exit):
            if known is not None and known.beat.incarnation == record.incarnation:
                known.exited = True
        elif known is None or record.incarnation > known.beat.incarnation:
            self._workers[record.worker] = Worker(record)
        elif record.incarnation == known.beat.incarnation:
            known.take(record)

    def alive(self, now_ms: int) -> list[Heartbeat]:
        return [worker.beat for worker in self._workers.values() if worker.state(now_ms) == "live"]

    def refused(self) -> Counter[str]:
        """Refused records by topic, as counted by the present workers; a restarted worker reads and refuses the same
        records again.
        """
        found: Counter[str] = Counter()
        for worker in self._workers.values():
            if not worker.exited:
                found.update(worker.beat.refused)
        return found

    def ended(self, key: str) -> bool:
        """True if a copy of the unit reports its end."""
        copies = (worker.copy(key) for worker in self._workers.values())
        return any(copy is not None and copy.state == "ended" for copy in copies)

    def reported(self, worker: str, incarnation: str, unit: str) -> CopyState:
        """The copy of the unit as the worker reports it."""
        known = self._workers.get(worker)
        found = known.copy(unit) if known is not None and known.beat.incarnation == incarnation else None
        return CopyState(unit, 0, "unknown") if found is None else found

    def state(self, copy: CopyLine, now_ms: int) -> str:
        """State that the copy reports; `down`, `silent` or `stuck` if its worker is."""
        worker = self._workers.get(copy.worker)
        if worker is None or worker.beat.incarnation != copy.incarnation or worker.exited:
            return "down"
        state = worker.state(now_ms)
        return state if state in ("silent", "stuck") else copy.state

    def lines(self, held: Mapping[tuple[str, str], Sequence[str]], now_ms: int) -> list[WorkerLine]:
        """The workers in natural order of their names.

        held: the units of the assigned copies, by worker and incarnation.
        """
        return [
            WorkerLine(
                worker=name,
                pid=worker.beat.pid,
                zone=worker.beat.zone,
                state=worker.state(now_ms),
                slots=worker.beat.slots,
                copies=len(units := tuple(held.get((name, worker.beat.incarnation), ()))),
                units=units,
                incarnation=worker.beat.incarnation,
                cpu_s=worker.beat.cpu,
                rss_bytes=worker.beat.rss_bytes,
                host=worker.beat.host,
                address=worker.beat.address,
                turn=str(worker.beat.turn) if worker.beat.stuck else "",
            )
            for name, worker in sorted(self._workers.items(), key=lambda item: natural(item[0]))
        ]


def natural(name: str) -> list[str | int]:
    """Sort key that puts worker-2 before worker-10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
