"""The condition of a copy with an image, for its tasks, its checkpoint policy, its reports and the worker's loop.

Source: PROTOCOL 5.
"""

from __future__ import annotations

from holdfast.schemas.assignments import Flags
from holdfast.schemas.checkpoints import Marker
from holdfast.services.worker.unit.batches.batch_processor import BatchProcessor
from holdfast.services.worker.unit.batches.gap_skip import GapSkip
from holdfast.services.worker.unit.checkpoints.checkpoints import Checkpoints
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.user_code.raised_errors import RaisedErrors
from holdfast.services.worker.unit.user_code.user_answers import UserAnswers


class Condition:
    """The condition of one copy, from a restored image on. Each value is computed when it is read, also between turns.

    Attributes:
        flags: the flags that the copy follows.
        began: batch of the image.
    """

    def __init__(
        self,
        unit: HostedUnit,
        flags: Flags,
        processing: BatchProcessor,
        checkpoints: Checkpoints,
        answering: UserAnswers,
        raising: RaisedErrors,
        skipping: GapSkip,
    ) -> None:
        self._job = unit.job
        self.flags = flags
        self._processing = processing
        self._checkpoints = checkpoints
        self._intake = processing.intake
        self._outputs = processing.outputs
        self._answering = answering
        self._raising = raising
        self._skipping = skipping
        self.began = processing.batch
        self._awaits_control: bool | None = None

    def view(self, now_ms: float) -> CopyView:
        """The view of the copy's tasks."""
        return CopyView(now_ms, self.flags, self.batch, self.commits, undecided=self.undecided, skips=self.skips)

    # -- how far it is ------------------------------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        """The last batch done."""
        return self._processing.batch

    @property
    def counts(self) -> dict[str, int]:
        return self._processing.counts

    @property
    def ended(self) -> bool:
        return self._processing.ended

    @property
    def marker(self) -> Marker | None:
        """The last valid marker that the copy has reached."""
        return self._checkpoints.marker

    @property
    def shows(self) -> tuple[tuple[int, int], ...]:
        """The newest batches, with digests of what they gave; empty unless recovery compares them."""
        return self._processing.showing.newest

    @property
    def out(self) -> int:
        """The last batch whose output is completely sent; 0 before the outputs are open."""
        return self._outputs.acknowledged(self.batch) if self._outputs.open else 0

    # -- what it does -------------------------------------------------------------------------------------------------

    @property
    def commits(self) -> bool:
        """True if the copy leads the unit, and its outputs are open."""
        return self.flags.commit and self._outputs.open

    @property
    def suspended(self) -> bool:
        """True if the copy processes nothing until its flags change."""
        return not self.flags.process

    @property
    def skips(self) -> bool:
        """True if no batch may be done now, because some are being skipped."""
        return self._skipping.holds(self.commits)

    @property
    def undecided(self) -> bool:
        """True if the state holds an unfinished batch (code raised in it) or lacks batches that are to be skipped."""
        return self._processing.held is not None or self.skips

    @property
    def data_wait(self) -> bool:
        """True if a batch is ready to be processed."""
        return self.flags.process and self._processing.ready and not self.skips

    @property
    def busy(self) -> bool:
        """True if there is work that needs no input."""
        return self._checkpoints.checkpointer.writer.working or self.data_wait

    # -- what it waits for --------------------------------------------------------------------------------------------

    @property
    def waits(self) -> str:
        """A text about everything missing that the copy waits for; empty if nothing is missing."""
        cutter, full = self._intake.cutter, self._job.bound.waits if self._intake.feeds else ""
        found = (self._outputs.delivery.waits, cutter.waits, self._answering.waits, full) if self.flags.commit else ()
        return "; ".join(filter(None, found))

    @property
    def awaits_control(self) -> bool:
        """True if a cut or a marker is on its way. Computed again after `changed`."""
        if self._awaits_control is None:
            follows = self._answering.deciding or (self.flags.process and not self.flags.commit and self._intake.uncut)
            cutter, writer = self._intake.cutter, self._checkpoints.checkpointer.writer
            self._awaits_control = follows or cutter.deciding or writer.deciding or self._raising.waits
        return self._awaits_control

    def changed(self) -> None:
        """Notes news, or a turn of the copy: another record may be on its way."""
        self._awaits_control = None
