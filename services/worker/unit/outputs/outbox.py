"""Outgoing frames: encoded, appended, and counted until the broker has acknowledged them.

Source: PROTOCOL 2 and 6 (a marker for b follows the acknowledgement of every frame <= b).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from holdfast.schemas.formats import FIRST
from holdfast.schemas.frames import FLAG_TENTATIVE
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.dataflow.unit import Sent
from holdfast.services.kernel.dataflow.unit_frames import Frames
from holdfast.services.log.protocol import Appender, Delivered
from holdfast.services.worker.core.retained import Retained
from holdfast.services.worker.core.spent import Spent


class Outbox:
    """Sends the frames of one copy.

    Attributes:
        epoch: epoch in the frames.
        error: first failed delivery, which ends the copy; `failed` is called.
        retained: counts bytes for readers; None if the job has no bound.
        done: number of batches that were acknowledged completely.
        activating: True if the next frame is the first since `send` is on; its acknowledgement is timed.

    Args:
        frames: encodes the frames.
        format: returns the format of the frames.
    """

    def __init__(
        self,
        frames: Frames,
        epoch: int,
        appender: Appender,
        spent: Spent,
        clock_ms: Callable[[], float],
        retained: Retained | None = None,
        format: Callable[[], int] = lambda: FIRST,
    ) -> None:
        self.retained = retained
        self._appender = appender
        self._spent = spent
        self._clock_ms = clock_ms
        self._format = format
        self.activating = True
        self._frames = frames
        self.epoch = epoch
        self._unacknowledged: OrderedDict[int, int] = OrderedDict()
        self.done = 0
        self.error: Exception | None = None
        self.failed: Callable[[], None] = lambda: None

    def send(self, batch: int, sent: Sequence[Sent]) -> None:
        """Appends every frame of a batch: one frame, or several parts, to each target partition."""
        for partition, frame in self._frames.encode(batch, sent, self.epoch, self._format()):
            self.append(batch, partition, frame)
            if self.retained is not None:
                self.retained.sent(batch, partition, len(frame))

    def send_tentative(self, batch: int, sent: Sequence[Sent]) -> None:
        """Appends tentative frames. They are not counted, because the stable batch repeats a lost one."""
        for partition, frame in self._frames.encode(batch, sent, self.epoch, self._format(), FLAG_TENTATIVE):
            self._appender.append(partition, frame)

    def append(self, batch: int, partition: Partition, value: bytes, key: bytes | None = None) -> None:
        """Appends a record that must be acknowledged before a marker for `batch`."""
        self._unacknowledged[batch] = self._unacknowledged.get(batch, 0) + 1
        self._spent.sent_bytes += len(value)
        done = self._timed(batch) if self.activating else lambda error, _: self._acknowledge(batch, error)
        self._appender.append(partition, value, key=key, done=done)

    def _timed(self, batch: int) -> Delivered:
        self.activating, began_ms = False, self._clock_ms()

        def delivered(error: Exception | None, _: int) -> None:
            self._spent.send_ms = self._clock_ms() - began_ms
            self._acknowledge(batch, error)

        return delivered

    def acknowledged(self, processed: int) -> int:
        """The last batch up to which everything is acknowledged."""
        return next(iter(self._unacknowledged)) - 1 if self._unacknowledged else processed

    @property
    def waiting(self) -> int:
        """The number of batches with unacknowledged records."""
        return len(self._unacknowledged)

    def _acknowledge(self, batch: int, error: Exception | None) -> None:
        if error is not None:
            self.error = self.error or error
            self.failed()
            return
        left = self._unacknowledged.get(batch, 0) - 1
        if left > 0:
            self._unacknowledged[batch] = left
        else:
            self._unacknowledged.pop(batch, None)
            self.done += 1
