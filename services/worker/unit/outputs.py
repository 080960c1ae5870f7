"""Outputs of a copy: frames to other units, rows and dead letters to the users' topics; and what it keeps back.

Source: PROTOCOL 2, 6 (the keep rule) and 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from holdfast.schemas import formats
from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.codecs.frames import MAX_FRAME_BYTES
from holdfast.services.kernel.dataflow.unit import Produced, Sent
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.log.protocol import Appender
from holdfast.services.worker.core.retained import Retained
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.sinks.delivery import Delivery
from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.tentative_rows import Ahead
from holdfast.services.worker.unit.kept import KeptOutputs
from holdfast.services.worker.unit.outbox import Outbox

MAX_UNACKNOWLEDGED_BATCHES = 64


class Outputs:
    """Outputs of one copy. Frames wait here while `send` is off, rows while the outputs are not open; both while they
    are held.

    Args:
        marker: with which the copy begins.
        epoch: goes with frames.
        spent: by the copy so far.

    sent: the last batch of which frames have left.
    """

    def __init__(
        self,
        layout: UnitLayout,
        job: JobView,
        marker: Marker | None,
        epoch: int,
        appender: Appender,
        spent: Spent,
        clock_ms: Callable[[], float],
    ) -> None:
        self._delivers = layout.unit.delivers
        counting = _retained(job, layout) if job.bound.set else None
        written = partial(_format, job)
        self._outbox = Outbox(
            layout,
            job.number,
            epoch,
            appender,
            max_frame_bytes=MAX_FRAME_BYTES,
            spent=spent,
            clock_ms=clock_ms,
            retained=counting,
            format=written,
        )
        self._progress = job.progress
        self.adopt(marker)
        self._kept = KeptOutputs()
        self._delivery: Delivery | None = None
        self._held = False
        self._opened: tuple[Delivery, int] | None = None
        self.sent = 0

    def on_failure(self, failed: Callable[[], None]) -> None:
        """Called when a frame could not be delivered."""
        self._outbox.failed = failed

    def epoch(self, epoch: int) -> None:
        """Goes with frames from now on."""
        self._outbox.epoch = epoch

    @property
    def under(self) -> int:
        """The epoch that goes with frames now."""
        return self._outbox.epoch

    def take(self, batch: int, produced: Produced, dead: Sequence[DeadLetter], send: bool, skipped: int = 0) -> None:
        """Sends and delivers what a batch has produced, or keeps it. dead: all the dead letters of the batch.

        skipped: records that the unit has skipped so far.
        """
        if send and not self._held:
            self._send(batch, produced.sent)
        else:
            self._kept.sent.append((batch, produced.sent))
        made = Batch(batch, produced.sinks, dead, skipped, passed=produced.passed)
        if self._delivery is not None:
            self._delivery.deliver(made)
        elif self._delivers:
            self._kept.rows.append(made)

    def adopt(self, marker: Marker | None) -> None:
        """Takes over from the last valid marker the bytes that another copy sent up to it."""
        if self._outbox.retained is not None and marker is not None:
            self._outbox.retained.adopt(marker.b, marker.kept)

    @property
    def bounded(self) -> bool:
        """The job bounds what readers have not acknowledged."""
        return self._outbox.retained is not None

    @property
    def retained(self) -> dict[str, int]:
        """Bytes of frames that readers have not acknowledged, by readers; empty where the job has no bound."""
        return {} if self._outbox.retained is None else self._outbox.retained.kept(self._progress)

    def send_kept(self, marker: Marker | None) -> None:
        """`send` is on: what was kept since the last valid marker goes first."""
        self._outbox.activating = True
        self.adopt(marker)
        self._send_kept()

    def _send_kept(self) -> None:
        while self._kept.sent and not self._held:
            self._send(*self._kept.sent.popleft())

    def send_tentative(self, ahead: Ahead, sent: Sequence[Sent]) -> None:
        """Frames and rows that no marker waits for, and that count only for those who ask for tentative results."""
        if self.takes_tentative:
            self._outbox.send_tentative(ahead.number, sent)
            if self._delivery is not None:
                self._delivery.deliver_tentative(ahead)

    @property
    def takes_tentative(self) -> bool:
        """Rows that are made on a fork can leave."""
        return self.open and (self._delivery is None or not self._delivery.ahead.full)

    def _send(self, batch: int, sent: Sequence[Sent]) -> None:
        self._outbox.send(batch, sent)
        self.sent = batch if sent else self.sent

    def hold(self) -> None:
        """Nothing leaves until `let_out`."""
        self._held = True

    def let_out(self, send: bool) -> None:
        """Lets out what was held, frames if `send` is on. Raises StateCorrupted: see `deliver_by`."""
        self._held = False
        if send:
            self._outbox.activating = True
            self._send_kept()
        if self._opened is not None:
            opened, self._opened = self._opened, None
            self.deliver_by(*opened)

    def keep_rows(self) -> None:
        """The outputs are gone: rows that are not known to be committed wait until they are open again."""
        self._opened = None
        if self._delivery is not None:
            self._kept.rows.extendleft(reversed(self._delivery.leftovers()))
            self._delivery = None

    def deliver_by(self, delivery: Delivery, known: int) -> None:
        """Delivers what was kept, at once, then all that follows; what is delivered already goes nowhere.

        Args:
            known: the delivered position that a valid marker names.

        Raises:
            StateCorrupted: the position lies before it. Its log has lost its tail, and rows would be delivered again.
        """
        if self._held:
            self._opened = delivery, known
            return
        if delivery.delivered < known:
            raise StateCorrupted(f"batch {known} was delivered, but its position says {delivery.delivered}")
        self._delivery = delivery
        delivery.deliver(*self._kept.rows)
        self._kept.rows.clear()

    def forget(self, batch: int) -> None:
        """A valid marker for `batch` says that all up to it is out."""
        self._kept.forget(batch)

    @property
    def open(self) -> bool:
        """Nothing is held, and rows can be delivered, or there never are any."""
        return not self._held and (self._delivery is not None or not self._delivers)

    @property
    def full(self) -> bool:
        """So much is on its way that no further batch is to be processed."""
        full = self._delivery is not None and self._delivery.full
        return full or self._kept.full or self._outbox.waiting >= MAX_UNACKNOWLEDGED_BATCHES

    def acknowledged(self, processed: int) -> int:
        """The last batch up to which every frame is acknowledged and every row committed."""
        return min(self._outbox.acknowledged(processed), self.committed(processed))

    def committed(self, processed: int) -> int:
        """The last batch up to which every row is committed."""
        return processed if self._delivery is None else self._delivery.committed(processed)

    @property
    def committed_ms(self) -> float:
        """The time of the last commit of rows, on the clock."""
        return 0.0 if self._delivery is None else self._delivery.committed_ms

    @property
    def answers(self) -> tuple[int, int]:
        """Grows whenever something that has left is acknowledged or committed."""
        return self._outbox.done, 0 if self._delivery is None else self._delivery.transactions

    @property
    def error(self) -> Exception | None:
        """The first frame that could not be delivered; it ends the copy."""
        return self._outbox.error

    def look_at_frames(self, now_ms: float) -> None:
        """Raises StateCorrupted if a frame could not be delivered."""
        if self.error is not None:
            raise StateCorrupted(f"a frame could not be delivered: {self.error}")

    @property
    def position(self) -> int:
        """The last batch whose rows are known to be committed."""
        return 0 if self._delivery is None else self._delivery.delivered

    @property
    def too_large(self) -> int:
        """Rows that became dead letters, since their topic takes none so large."""
        return 0 if self._delivery is None else self._delivery.too_large

    # -- topics that are gone -----------------------------------------------------------------------------------------

    @property
    def waits(self) -> str:
        """The topic of a sink that is gone; or empty."""
        return "" if self._delivery is None else self._delivery.waits

    @property
    def look_ms(self) -> float:
        """The time to look for its return, or to deliver rows whose time has come."""
        return math.inf if self._delivery is None else min(self._delivery.again_ms, self._delivery.due_ms)

    def look(self, now_ms: float) -> None:
        """Looks whether it is back, and delivers, if it is time to."""
        if self._delivery is not None:
            self._delivery.look_again(now_ms)
            self._delivery.look(now_ms)

    def hurry(self) -> None:
        """No more rows will come: those that wait need not wait longer."""
        if self._delivery is not None:
            self._delivery.hurry()


def _format(job: JobView) -> int:
    return formats.written(job.assigned.format)


def _retained(job: JobView, layout: UnitLayout) -> Retained:
    written = {Partition(out.topic, at) for task in layout.tasks for out in task.outputs for at in out.targets}
    return Retained({partition: job.readers.get(partition, ()) for partition in written})
