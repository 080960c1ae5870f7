"""The outputs of a copy: frames to other units, rows and dead letters to the users' topics; and outputs that it keeps.

Source: PROTOCOL 2, 6 (the keep rule) and 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from holdfast.schemas import formats
from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.codecs.frames import MAX_FRAME_BYTES
from holdfast.services.kernel.dataflow.unit import Produced, Sent
from holdfast.services.kernel.dataflow.unit_frames import Frames
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.worker.core.retained import Retained
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.sinks.delivery import Delivery
from holdfast.services.worker.sinks.no_delivery import NoDelivery
from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.tentative_rows import Ahead
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.outputs.kept_outputs import KeptOutputs
from holdfast.services.worker.unit.outputs.outbox import Outbox

MAX_UNACKNOWLEDGED_BATCHES = 64


class Outputs:
    """The outputs of one copy. Frames wait here while `send` is off, rows while the outputs are not open, both while
    held.

    Args:
        marker: marker from which the copy begins.
        epoch: epoch in the frames.
        failed: called when a frame could not be delivered.

    Attributes:
        sent: last batch with frames sent.
        outbox: sends frames.
        delivery: delivers rows.
    """

    def __init__(
        self,
        unit: HostedUnit,
        marker: Marker | None,
        epoch: int,
        failed: Callable[[], None],
    ) -> None:
        job, layout, around = unit.job, unit.layout, unit.around
        self.outbox = Outbox(
            Frames(layout, job.number, MAX_FRAME_BYTES),
            epoch,
            around.appender,
            unit.spent,
            clock_ms=around.clock_ms,
            retained=_retained(job, layout) if job.bound.set else None,
            format=partial(_format, job),
        )
        self.outbox.failed = failed
        self._progress = job.progress
        self.adopt(marker)
        self._kept = KeptOutputs()
        self._closed = NoDelivery(self._kept.rows if layout.unit.delivers else None)
        self.delivery: Delivery | NoDelivery = self._closed
        self._held = False
        self._opened: tuple[Delivery, int] | None = None
        self.sent = 0

    def take(self, batch: int, produced: Produced, dead: Sequence[DeadLetter], send: bool, skipped: int = 0) -> None:
        """Sends and delivers the output of a batch, or keeps it.

        Args:
            dead: all dead letters of the batch.
            skipped: number of records that the unit has skipped so far.
        """
        if send and not self._held:
            self._send(batch, produced.sent)
        else:
            self._kept.sent.append((batch, produced.sent))
        self.delivery.deliver(Batch(batch, produced.sinks, dead, skipped, passed=produced.passed))

    def adopt(self, marker: Marker | None) -> None:
        """Sets the retained bytes up to the last valid marker to the counts in it, because another copy sent them."""
        if self.outbox.retained is not None and marker is not None:
            self.outbox.retained.adopt(marker.b, marker.kept)

    @property
    def retained(self) -> dict[str, int]:
        """Bytes of frames that readers have not acknowledged, by readers; empty if the job has no bound."""
        return {} if self.outbox.retained is None else self.outbox.retained.kept(self._progress)

    def send_kept(self, marker: Marker | None) -> None:
        """Sends the frames kept since the last valid marker, after `send` was set."""
        self.outbox.activating = True
        self.adopt(marker)
        self._send_kept()

    def _send_kept(self) -> None:
        while self._kept.sent and not self._held:
            self._send(*self._kept.sent.popleft())

    def send_tentative(self, ahead: Ahead, sent: Sequence[Sent]) -> None:
        """Sends frames and rows that no marker waits for and that only readers of tentative results use."""
        if self.takes_tentative:
            self.outbox.send_tentative(ahead.number, sent)
            self.delivery.deliver_tentative(ahead)

    @property
    def takes_tentative(self) -> bool:
        """True if rows from a fork can be sent."""
        return self.open and not self.delivery.ahead.full

    def _send(self, batch: int, sent: Sequence[Sent]) -> None:
        self.outbox.send(batch, sent)
        self.sent = batch if sent else self.sent

    def hold(self) -> None:
        """Holds all output until `let_out`."""
        self._held = True

    def let_out(self, send: bool) -> None:
        """Sends held output; frames only if `send` is on. Raises StateCorrupted as `deliver_by` does."""
        self._held = False
        if send:
            self.outbox.activating = True
            self._send_kept()
        if self._opened is not None:
            opened, self._opened = self._opened, None
            self.deliver_by(*opened)

    def keep_rows(self) -> None:
        """Keeps rows that are not known to be committed until the outputs are open again."""
        self._opened = None
        self._kept.rows.extendleft(reversed(self.delivery.leftovers()))
        self.delivery = self._closed

    def deliver_by(self, delivery: Delivery, known: int) -> None:
        """Delivers kept rows at once, then all later rows; rows that are delivered already are skipped.

        Args:
            known: delivered position in a valid marker.

        Raises:
            StateCorrupted: the delivered position is before `known`, so its log has lost its end and rows would be
                delivered twice.
        """
        if self._held:
            self._opened = delivery, known
            return
        if delivery.delivered < known:
            raise StateCorrupted(f"batch {known} was delivered, but its position says {delivery.delivered}")
        self.delivery = delivery
        delivery.deliver(*self._kept.rows)
        self._kept.rows.clear()

    def forget(self, batch: int) -> None:
        """Drops outputs up to `batch`, which a valid marker confirms as sent."""
        self._kept.forget(batch)

    @property
    def open(self) -> bool:
        """True if nothing is held and rows can be delivered, or the unit has no rows."""
        return not self._held and self.delivery.takes_rows

    @property
    def full(self) -> bool:
        """True if so much output is unconfirmed that no further batch should be processed."""
        return self.delivery.full or self._kept.full or self.outbox.waiting >= MAX_UNACKNOWLEDGED_BATCHES

    def acknowledged(self, processed: int) -> int:
        """The last batch up to which every frame is acknowledged and every row committed."""
        return min(self.outbox.acknowledged(processed), self.delivery.committed(processed))

    @property
    def answers(self) -> tuple[int, int]:
        """Counters that grow with each acknowledgement or commit."""
        return self.outbox.done, self.delivery.transactions

    def look_at_frames(self, now_ms: float) -> None:
        """Raises StateCorrupted if a frame could not be delivered."""
        if self.outbox.error is not None:
            raise StateCorrupted(f"a frame could not be delivered: {self.outbox.error}")

    def deliver_if_due(self, now_ms: float) -> None:
        """Checks for a missing topic, and delivers rows that are due."""
        self.delivery.look_again(now_ms)
        self.delivery.commit_if_due(now_ms)


def _format(job: JobView) -> int:
    return formats.written(job.assigned.format)


def _retained(job: JobView, layout: UnitLayout) -> Retained:
    written = {Partition(out.topic, at) for task in layout.tasks for out in task.outputs for at in out.targets}
    return Retained({partition: job.readers.get(partition, ()) for partition in written})
