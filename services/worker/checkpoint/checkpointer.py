"""Reads the checkpoint log of a unit for one copy. The copy writes runs of its own or applies the runs of other copies.

Source: PROTOCOL 6. This module reads every record of the log; the fold decides which runs are valid.
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
    """Callbacks for the outcomes of runs. For `acked` and `captured` see LogWriter, for `passed` and `jumped` see
    Applier."""

    acked: Callable[[Marker], None]
    passed: Callable[[Marker], None]
    jumped: Callable[[Marker], None]
    captured: Callable[[Collection[bytes], Kind], None]


class Checkpointer:
    """The checkpointer of one copy.

    Attributes:
        writer: writes the copy's own runs.
        applier: applies runs of other copies.
        image: the image that both change.
        log: the fold of the unit's partition.

    Args:
        written: the unit's checkpoint log, whose fold is as restored.
        spent: costs of the copy so far.
    """

    def __init__(self, written: WrittenLog, image: UnitImage, listener: RunListener, spent: Spent) -> None:
        self.log = written.log
        self.image = image
        self.writer = LogWriter(written, image, listener.acked, listener.captured, spent=spent)
        self.applier = Applier(image, written.clock_ms, listener.passed, listener.jumped, spent=spent)

    @property
    def resting(self) -> bool:
        """True if a run may begin."""
        return self.writer.resting and not self.applier.waiting

    def read(self, offset: int, value: bytes) -> Exception | None:
        """Processes a record of the unit's partition, written by this copy or another. Returns the error if the record
        cannot be decoded; otherwise None. Raises StateCorrupted if the unit was rolled back."""
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
        """True if `apply` has work to do; never before the copy's own run is settled."""
        return self.writer.resting and self.applier.due(batch, suspended)

    def apply(self, batch: int, suspended: bool) -> None:
        """Applies runs of other copies for about PIECE_MS. The arguments are those of Applier.apply."""
        if self.writer.resting:
            self.applier.apply(batch, suspended)

    def activate(self, batch: int) -> None:
        """Applies all waiting runs before a suspended copy begins to process."""
        if self.writer.resting:
            self.applier.finish(batch)
