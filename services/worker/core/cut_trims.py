"""Decides when to write a snapshot of the cut log, and up to which snapshot the log may be trimmed.

Source: PROTOCOL 3 and 7. The log is never trimmed beyond the restart position of a unit, and only to the position of a
valid snapshot, because a reader begins there with the state in the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.schemas.cuts import KnownSnapshot
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition
from holdfast.services.worker.core.trim_limit import acknowledged

FEWEST_RECORDS, RECORDS_A_TASK = 64, 16
"""Number of records between two snapshots: a part for the log and a part for each task. A snapshot is about as large as
a record for each source task."""
SNAPSHOTS_A_HORIZON = 12
SHORTEST_MS, LONGEST_MS = 1_000, 300_000
"""Bounds of the time between two snapshots. The log keeps the horizon and one such interval more."""
UNANSWERED_MS = 5_000
"""Time after which a proposal that was not read back is made again."""


@dataclass(slots=True)
class CutTrims:
    """The trimming of one job's cut log.

    Attributes:
        cut_log: partition of the cut log.
        horizon_ms: time for which cuts are kept for replays.
        tasks: number of source tasks.
        trimmed: offset up to which the log is trimmed, as far as known.
    """

    cut_log: Partition
    horizon_ms: float
    tasks: int
    trimmed: int = 0
    _proposed: tuple[int, float] | None = None

    @property
    def spacing_ms(self) -> float:
        """The time between two snapshots."""
        return min(max(self.horizon_ms / SNAPSHOTS_A_HORIZON, SHORTEST_MS), LONGEST_MS)

    def snapshot_due(self, known: Sequence[KnownSnapshot], upto: int, now_ms: float) -> bool:
        """True if a snapshot of the log up to offset `upto` must be written. `now_ms` is the time of day."""
        last = known[-1] if known else KnownSnapshot(0, 0)
        if self._proposed is not None and (
            last.upto >= self._proposed[0] or now_ms - self._proposed[1] >= UNANSWERED_MS
        ):
            self._proposed = None
        enough = upto - last.upto >= FEWEST_RECORDS + RECORDS_A_TASK * self.tasks
        return self._proposed is None and enough and abs(now_ms - last.time_ms) >= self.spacing_ms

    def proposed(self, upto: int, now_ms: float) -> None:
        """Notes that a snapshot up to `upto` was proposed."""
        self._proposed = upto, now_ms

    def upto(
        self, known: Sequence[KnownSnapshot], units: Iterable[str], progress: Mapping[str, Progress], now_ms: float
    ) -> int | None:
        """The offset of the snapshot up to which the log may be trimmed; None if nothing would be freed.

        Args:
            known: valid snapshots that were read back.
            units: units that read the log.
            now_ms: time of day.
        """
        restart = acknowledged(self.cut_log, units, progress)
        usable = (one.upto for one in known if one.upto <= restart and one.time_ms <= now_ms - self.horizon_ms)
        upto = max(usable, default=0)
        return upto if upto > self.trimmed else None
