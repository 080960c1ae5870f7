"""The reader of its unit's checkpoint log for one copy: the copy writes runs of its own, or applies those of others.

Source: PROTOCOL 6. Every record of the log is read here, and the fold says which runs are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import msgspec

from holdfast.schemas.checkpoints import Marker, decode
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.worker.checkpoint.applier import Applier
from holdfast.services.worker.checkpoint.policies.policy import Kind
from holdfast.services.worker.checkpoint.unit_image import UnitImage
from holdfast.services.worker.checkpoint.writer import LogWriter, WrittenLog
from holdfast.services.worker.core.spent import Spent


@dataclass(frozen=True, slots=True)
class RunListener:
    """Called with what becomes of runs. acked, captured: see LogWriter. passed, jumped: see Applier."""

    acked: Callable[[Marker], None]
    passed: Callable[[Marker], None]
    jumped: Callable[[Marker], None]
    captured: Callable[[Collection[bytes], Kind], None]


class Checkpointer:
    """The checkpointer of one copy.

    writer: its own runs.
    applier: those of others.
    image: what both apply to.
    log: the fold of the unit's partition.

    Args:
        written: the unit's log, whose fold is as restored.
        spent: by the copy so far.
    """

    def __init__(self, written: WrittenLog, image: UnitImage, listener: RunListener, spent: Spent) -> None:
        self.log, self.image = written.log, image
        self.writer = LogWriter(written, image, listener.acked, listener.captured, spent=spent)
        self.applier = Applier(image, written.clock_ms, listener.passed, listener.jumped, spent=spent)

    @property
    def resting(self) -> bool:
        """A run may begin."""
        return self.writer.resting and not self.applier.waiting

    def read(self, offset: int, value: bytes) -> Exception | None:
        """Takes a record of the unit's partition, ours or another copy's; why it is none, if it cannot be read."""
        try:
            record = decode(value)
        except msgspec.DecodeError as error:
            return error
        line = self.log.line
        run = self.log.read(offset, record)
        if self.log.line != line:
            raise StateCorrupted(f"the unit was rolled back to batch {self.log.last_b}, and this copy was not")
        if isinstance(record, Marker) and self.writer.awaits(record):
            self.writer.read_back(valid=run is not None)
        elif run is not None:
            self.writer.abandon()
            self.applier.add(run)
        return None

    def applies(self, batch: int, suspended: bool) -> bool:
        """True if `apply` has anything to do: not before the copy's own run is settled."""
        return self.writer.resting and self.applier.due(batch, suspended)

    def apply(self, batch: int, suspended: bool) -> None:
        """Applies other copies' runs for a while. For the arguments see Applier.apply."""
        if self.writer.resting:
            self.applier.apply(batch, suspended)

    def activate(self, batch: int) -> None:
        """The copy was suspended and is about to process: first it applies all that waits."""
        if self.writer.resting:
            self.applier.finish(batch)
