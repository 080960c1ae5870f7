"""Snapshots of the cut log: the times for them, and the one up to which the log may be trimmed.

Source: PROTOCOL 3 and 7. Never further than the restart position of any unit, and never to a position that no valid
snapshot names: a reader begins there with the state that the snapshot holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.schemas.cuts import KnownSnapshot
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition
from holdfast.services.worker.core.trimming import acknowledged

FEWEST_RECORDS, RECORDS_A_TASK = 64, 16
"""Records between two snapshots: a snapshot is about as large as a record for each source task."""
SNAPSHOTS_A_HORIZON = 12
SHORTEST_MS, LONGEST_MS = 1_000, 300_000
"""Between two snapshots. What is kept is the horizon, and one such stretch more."""
UNANSWERED_MS = 5_000
"""A proposal that was not read back for so long is made again."""


@dataclass(slots=True)
class CutTrimming:
    """Trimming of one job's cut log.

    horizon_ms: for how long cuts are kept for replays.
    trimmed: the offset up to which it is trimmed, as far as is known.
    """

    cut_log: Partition
    horizon_ms: float
    tasks: int
    trimmed: int = 0
    _proposed: tuple[int, float] | None = None

    @property
    def spacing_ms(self) -> float:
        """Between two snapshots."""
        return min(max(self.horizon_ms / SNAPSHOTS_A_HORIZON, SHORTEST_MS), LONGEST_MS)

    def snapshot_due(self, known: Sequence[KnownSnapshot], upto: int, now_ms: float) -> bool:
        """True if a snapshot of the log as it stands, up to `upto`, is to be written. now_ms: time of day."""
        last = known[-1] if known else KnownSnapshot(0, 0)
        if self._proposed is not None and (
            last.upto >= self._proposed[0] or now_ms - self._proposed[1] >= UNANSWERED_MS
        ):
            self._proposed = None
        enough = upto - last.upto >= FEWEST_RECORDS + RECORDS_A_TASK * self.tasks
        return self._proposed is None and enough and abs(now_ms - last.time_ms) >= self.spacing_ms

    def proposed(self, upto: int, now_ms: float) -> None:
        """A snapshot is on its way."""
        self._proposed = upto, now_ms

    def upto(
        self, known: Sequence[KnownSnapshot], units: Iterable[str], progress: Mapping[str, Progress], now_ms: float
    ) -> int | None:
        """The snapshot up to which the log may be trimmed; None: nothing would be freed.

        Args:
            known: valid ones that were read back. units: that read the log. now_ms: time of day.
        """
        restart = acknowledged(self.cut_log, units, progress)
        usable = (one.upto for one in known if one.upto <= restart and one.time_ms <= now_ms - self.horizon_ms)
        upto = max(usable, default=0)
        return upto if upto > self.trimmed else None
