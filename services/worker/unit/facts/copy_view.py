"""The view of a copy for the tasks of a turn."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.schemas.assignments import Flags


class CopyView(NamedTuple):
    """The present state of a copy: created once a turn, and again after each task that may change it."""

    now_ms: float
    """Time of the turn, on the clock."""
    flags: Flags
    batch: int
    """The last batch done."""
    commits: bool
    """True if the copy leads the unit, and its outputs are open."""
    undecided: bool
    """True if the state holds an unfinished batch, because code raised in it, or lacks batches that are to be
    skipped.
    """
    skips: bool
    """True if no batch may be done now, because some are being skipped."""

    @property
    def suspended(self) -> bool:
        """True if the copy processes nothing until its flags change."""
        return not self.flags.process
