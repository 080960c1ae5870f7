"""Subscribers of the worker's two readers, other than its copies.

Source: PROTOCOL 5.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas import progress
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.refusals import Refusals
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.errors import WorkerUnfit
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.subscriptions import Handler

_log = get_logger()


class DecisionReader:
    """Receives plans and assignments on the control reader."""

    def __init__(self, read: Handler) -> None:
        self._read = read

    def handler(self, partition: Partition) -> Handler:
        return self._read

    def broken(self, cause: str, partition: Partition | None = None) -> None:
        """Raises WorkerUnfit: unread decisions were trimmed, so only a snapshot holds the present assignments."""
        raise WorkerUnfit(f"jobs.plans or assignments were trimmed before they were read: {cause}")


class AssignmentSignal:
    """Receives assignments on the data reader, only to wake a loop that waits for data; the control reader delivers
    them.

    A takeover begins with an assignment. If the failed worker was upstream, no data arrive to end the wait.

    Attributes:
        newest: offset of the last assignment.
    """

    def __init__(self) -> None:
        self.newest = -1

    def handler(self, partition: Partition) -> Handler:
        return self._note

    def _note(self, chunk: Chunk) -> None:
        if chunk.messages:
            self.newest = chunk.messages[-1].offset()

    def broken(self, cause: str, partition: Partition | None = None) -> None:
        pass


class IgnoredEvents:
    """Receives events, so that the event of a copy that opens its inputs ends the pending request at the broker.

    That request does not name the new inputs; the next one does and is sent when it is answered. Measured until the
    first record of an added partition: 7 ms with the event, 76 ms without.
    """

    def handler(self, partition: Partition) -> Handler:
        return lambda chunk: None

    def broken(self, cause: str, partition: Partition | None = None) -> None:
        pass


class ProgressReader:
    """Updates a job's view with the published progress of all units."""

    def __init__(self, job: JobView, refusals: Refusals) -> None:
        self._job = job
        self._refusals = refusals

    def handler(self, partition: Partition) -> Handler:
        return self._read

    def _read(self, chunk: Chunk) -> None:
        for message in self._job.passed_over(chunk).messages:
            try:
                self._job.read_published(progress.decode(message.value() or b""))
            except msgspec.DecodeError as error:
                self._refusals.refuse(chunk.partition, message.offset(), error, self._job.plan.job)

    def broken(self, cause: str, partition: Partition | None = None) -> None:
        _log.warning("progress cannot be read", job=self._job.plan.job, cause=cause)
