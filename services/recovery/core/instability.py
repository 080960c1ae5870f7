"""The period of instability: from the failure of a worker until every unit that lost a copy by it is protected again.

Source: MECHANISMS C4. Failures that come before the end belong to the same period. A replica that starts within a
period does not know when it began, and measures none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Period:
    """A period of instability that is over.

    workers: that failed, the first one first.
    units: that lost a copy.
    lasted_us: since the last sign of life of the first worker.
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
        """A period has begun, and is not over."""
        return bool(self._units)

    def failed(self, worker: str, units: Iterable[str], since_us: int) -> None:
        """A worker has failed. units: that have a copy there. since_us: when it was heard last."""
        lost = set(units)
        if not lost:
            return
        if not self.open:
            self._began_us = since_us
        self._workers[worker] = None
        self._units |= lost

    def look(self, placed: Collection[str], unprotected: Collection[str], now_us: int) -> Period | None:
        """The period that is over now. placed: units that have copies; one that was taken down needs no protection."""
        if not self.open or not self._units.isdisjoint(unprotected):
            return None
        units, workers = sorted(self._units.intersection(placed)), tuple(self._workers)
        self._units, self._workers = set(), {}
        return Period(workers, tuple(units), now_us - self._began_us) if units else None
