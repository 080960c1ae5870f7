"""A copy's part in global checkpoints, and the data that it keeps for them.

Source: MECHANISMS R1; docs/decisions/0085. The unit's log holds its checkpoints (decisions/checkpoint_log.py); this
module combines them with the decisions of the job and the progress of the copy.
"""

from __future__ import annotations

from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.progress import MOST_MARKS
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.worker.host.job import JobView


class HeldCheckpoints:
    """The global checkpoints of one copy; `line` is its line."""

    def __init__(self, job: JobView, log: CheckpointLog, line: int) -> None:
        self._job = job
        self._log = log
        self.line = line
        self._acked = log.acked

    @property
    def since(self) -> int:
        """The offset of the command for the checkpoint policy; see schemas/progress.py."""
        return -1 if self._job.held is None else self._job.checkpoint.since

    def at(self, batch: int) -> tuple[bool, int | None]:
        """True if a capture after this batch may be part of a global checkpoint, and the newest complete global
        checkpoint. See schemas/checkpoints.py, Marker."""
        held = self._job.held
        if held is None or batch % self._job.checkpoint.every_batches:
            return False, held
        return sum(mark > held for mark in self._log.marks) < MOST_MARKS, held

    def acked(self, marker: Marker | None) -> Marker | None:
        """The marker up to which inputs may be trimmed. `marker` is the last valid one that the copy has reached."""
        acked = self._log.acked
        if marker is None or marker.held is None or self.over(marker):
            self._acked = marker
        elif acked is not None and acked.b <= marker.b:
            self._acked = acked
        return self._acked

    def over(self, marker: Marker) -> bool:
        """True if the marker is the unit's last one and no unit rolls back behind it.

        If only sources retain, a unit that rolls back needs everything that this unit has sent since:
        docs/decisions/0112.
        """
        held = self._job.held if self._job.retains_at_sources else None
        return marker.ended and (held is None or held >= marker.b)

    def marks(self, marker: Marker | None) -> tuple[int, ...]:
        """Batches of further checkpoints up to the marker to which the unit could roll back."""
        acked = self.acked(marker)
        above, reached = 0 if acked is None else acked.b, 0 if marker is None else marker.b
        return tuple(sorted(batch for batch in self._log.marks if above < batch <= reached))[:MOST_MARKS]
