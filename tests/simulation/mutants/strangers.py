"""Deliberate bugs of what is made of records that strangers wrote."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.schemas import delivered
from holdfast.schemas.checkpoints import Anchor
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.decisions.standings import Standings
from holdfast.services.recovery.core.job.wants import Wants
from holdfast.services.worker.sinks.position import Positions
from tests.simulation.mutants.bug import method


@method(Positions, "_believed")
def any_position_believed(true: Any, self: Positions, message: Any) -> Any:
    """A delivered position ahead of every batch is believed."""
    try:
        return delivered.decode(message.value() or b"")
    except msgspec.DecodeError:
        return true(self, message)


@method(Wants, "of")
def unplaced_ends_a_unit(true: Any, self: Wants, unit: str, standings: Standings) -> Any:
    """An assignment without copies ends its unit, whoever wrote it, and whatever is wanted of the job."""
    change = standings.assigned.of(unit)
    return None if change is not None and not change.copies else true(self, unit, standings)


@method(CheckpointLog, "read")
def any_anchor_believed(true: Any, self: CheckpointLog, offset: int, record: Any) -> Any:
    """An anchor names a base, whatever it says."""
    if isinstance(record, Anchor):
        self.anchored = max(self.anchored, record.upto)
        return None
    return true(self, offset, record)
