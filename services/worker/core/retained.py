"""Counts and bounds the bytes of frames in a job's data topics that some reader has not acknowledged.

Source: PROTOCOL 7, docs/decisions/0072. The leader of each unit counts the frames it has sent and publishes the sum
with its progress. A source task begins no batch while the sum of all units reaches `retain_bytes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition
from holdfast.services.worker.core.cut_rhythm import Lead

LONG_MS = 2_000.0
"""Time after which a job that is held back reports it. A shorter wait ends with the next checkpoint of the readers."""


class Retained:
    """Bytes that are retained for the readers of one unit. A partition counts until its last reader has acknowledged
    the batch.

    Args:
        readers: units that read each partition that the unit writes.
        batch: batch of the marker from which the copy begins.
        kept: retained bytes in that marker, by readers.
    """

    def __init__(
        self, readers: Mapping[Partition, tuple[str, ...]], batch: int = 0, kept: Mapping[str, int] | None = None
    ) -> None:
        self._names = {partition: "+".join(units) for partition, units in readers.items() if units}
        self._units = {"+".join(units): units for units in readers.values() if units}
        self._leads = {name: Lead() for name in self._units}
        self.adopt(batch, kept or {})

    def sent(self, batch: int, partition: Partition, size: int) -> None:
        if name := self._names.get(partition):
            self._leads[name].cut(batch, size)

    def adopt(self, batch: int, kept: Mapping[str, int]) -> None:
        """Sets the bytes up to this batch, which another copy has sent, to the counts of a marker."""
        for name, lead in self._leads.items():
            lead.adopt(batch, kept.get(name, 0))

    def kept(self, progress: Mapping[str, Progress]) -> dict[str, int]:
        """The retained bytes by readers, for a marker."""
        found = {name: lead.behind(self._acked(name, progress)) for name, lead in self._leads.items()}
        return {name: size for name, size in found.items() if size}

    def bytes(self, progress: Mapping[str, Progress]) -> int:
        return sum(self.kept(progress).values())

    def _acked(self, name: str, progress: Mapping[str, Progress]) -> int:
        known = (progress.get(unit) for unit in self._units[name])
        return min(0 if one is None else one.acked for one in known)


class Bound:
    """The bound of one job, below which its sources may begin a batch.

    Attributes:
        waits: reason for people if the job has been held back for long; otherwise empty.

    Args:
        limit: bytes; None for no bound.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._since_ms = math.inf
        self.waits = ""

    @property
    def set(self) -> bool:
        return self._limit is not None

    def reached(self, progress: Iterable[Progress], now_ms: float) -> bool:
        """True if the retained bytes reach the bound. Units that have ended do not count."""
        if self._limit is None:
            return False
        known = [one for one in progress if not one.ended]
        if sum(one.retained for one in known) < self._limit:
            self._since_ms = math.inf
            self.waits = ""
            return False
        self._since_ms = min(self._since_ms, now_ms)
        if now_ms - self._since_ms >= LONG_MS:
            self.waits = self._why(known)
        return True

    def _why(self, known: Iterable[Progress]) -> str:
        slowest = min(known, key=lambda one: (one.acked, one.unit))
        return (
            f"no batch begins: the data topics hold retain_bytes ({self._limit}) that are not acknowledged, the least "
            f"by {slowest.unit}"
        )
