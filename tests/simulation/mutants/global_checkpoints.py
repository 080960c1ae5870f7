"""Deliberate bugs of global checkpoints and rollbacks: docs/decisions/0085 and 0086."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest import mock

from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.progress import Progress
from holdfast.services.decisions import global_checkpoints
from holdfast.services.decisions.checkpoint_log import CheckpointLog, restore
from holdfast.services.worker.checkpoint import restore as restoring


def acked_one_too_far() -> AbstractContextManager[object]:
    """A unit acknowledges its marker behind that of the newest global checkpoint: upstream trims that much more."""
    hold = CheckpointLog._hold

    def further(self: CheckpointLog, marker: Marker, offset: int) -> None:
        hold(self, marker, offset)
        later = [b for b in self.marks if marker.held is not None and b > marker.held]
        if later:
            self.acked = self.marks[min(later)].marker

    return mock.patch.object(CheckpointLog, "_hold", further)


def runs_of_the_newest_marker_kept() -> AbstractContextManager[object]:
    """The checkpoint log is trimmed as if every restore ended at the newest marker."""
    return mock.patch.object(CheckpointLog, "_needed", property(lambda self: self._base))


def newest_marker_restored() -> AbstractContextManager[object]:
    """A copy that is to begin again at a global checkpoint begins at the newest marker."""
    return mock.patch.object(restoring, "restore", lambda records, line=0, at=0: restore(records))


def void_markers_count() -> AbstractContextManager[object]:
    """Completes a global checkpoint by a statement of a unit from before it was rolled back."""

    def unit(known: Progress | None, line: int, since: int) -> Progress:
        return known if known is not None and (known.since == since or known.ended) else Progress("", 0, 0)

    return mock.patch.object(global_checkpoints, "_unit", unit)
