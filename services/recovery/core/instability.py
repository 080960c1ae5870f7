"""The period of instability: from the failure of a worker until every unit that lost a copy by it is protected again.

Source: MECHANISMS C4. A failure before the end of a period belongs to that period. A replica that starts within a
period cannot determine its beginning, and measures none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Period:
    """A period of instability that is over.

    workers: failed workers, in the order of their failures.
    units: units that lost a copy.
    lasted_us: time since the last heartbeat of the first failed worker.
    """

    workers: tuple[str, ...]
    units: tuple[str, ...]
    lasted_us: int

    def __str__(self) -> str:
        return f"{', '.join(self.workers)} had failed; units protected again: {len(self.units)}"


@dataclass(slots=True)
class Instability:
    """Periods of instability of the whole cluster; at most one period at a time."""

    _began_us: int = 0
    _workers: dict[str, None] = field(default_factory=dict)
    _units: set[str] = field(default_factory=set)

    @property
    def open(self) -> bool:
        """True if a period has begun and is not over."""
        return bool(self._units)

    def failed(self, worker: str, units: Iterable[str], since_us: int) -> None:
        """Takes the failure of a worker.

        units: units that had a copy on the worker.
        since_us: time of the worker's last heartbeat.
        """
        lost = set(units)
        if not lost:
            return
        if not self.open:
            self._began_us = since_us
        self._workers[worker] = None
        self._units |= lost

    def look(self, placed: Collection[str], unprotected: Collection[str], now_us: int) -> Period | None:
        """Returns the period that is over now, if one is.

        placed: units that have copies; a unit that was taken down needs no protection.
        """
        if not self.open or not self._units.isdisjoint(unprotected):
            return None
        units, workers = sorted(self._units.intersection(placed)), tuple(self._workers)
        self._units = set()
        self._workers = {}
        return Period(workers, tuple(units), now_us - self._began_us) if units else None
