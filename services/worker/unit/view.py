"""The view of a copy that the parts of a turn are given."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.schemas.assignments import Flags


class CopyView(NamedTuple):
    """A copy as it stands: made once a turn, and once more behind each task that may change it."""

    now_ms: float
    """Time of the turn, on the clock."""
    flags: Flags
    batch: int
    """The last one done."""
    commits: bool
    """True if the copy leads the unit, and its outputs are open."""
    undecided: bool
    """The state holds a batch that is not done, as code raised in it, or lacks some that are to be skipped."""
    skips: bool
    """No batch is to be done now, as some are skipped."""

    @property
    def suspended(self) -> bool:
        """True if the copy processes nothing until its flags change."""
        return not self.flags.process
