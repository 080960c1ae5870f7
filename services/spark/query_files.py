"""The checkpoint of a query whose files go through Kafka: a standby keeps a copy, and a leader sends its files.

Source: PROTOCOL 12. For the threads of an engine.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.log.protocol import Log
from holdfast.services.spark.checkpoint import Checkpoints, marks
from holdfast.services.spark.core.checkpoint_files import kept
from holdfast.services.spark.core.received_files import FilesMissing, ReceivedFiles
from holdfast.services.spark.core.sent_files import SentFiles
from holdfast.services.spark.core.taking_over import takeover
from holdfast.services.spark.engine import Run, Write
from holdfast.services.spark.file_follower import FileFollower
from holdfast.services.spark.file_sender import FileSender


class QueryFiles:
    """The files of one operator's query.

    Args:
        checkpoints: directories on this machine.
        folder: folder of the copy; on the same file system as `checkpoints`, so that files are linked.
    """

    def __init__(self, log: Log, partition: Partition, checkpoints: Checkpoints, folder: Path) -> None:
        self._log = log
        self._partition = partition
        self._checkpoints = checkpoints
        self._follower = FileFollower(log, partition, folder)
        self._sender: tuple[int, FileSender] | None = None

    def follow(self) -> None:
        """Keeps a copy from now on, for a takeover."""
        self._end_sending()
        self._follower.follow()

    def prepare(self, run: Run, wanted: Callable[[], bool]) -> Path:
        """Returns the checkpoint directory of the run's epoch.

        Raises:
            StateCorrupted: neither Kafka nor this machine has the checkpoint of the last valid commit.
            Retriable: Kafka does not answer, or `wanted` returns False.
        """
        if self._sender is not None and self._sender[0] == run.epoch:
            return self._sender[1].directory
        self._end_sending()
        if self._partition.topic not in self._log.topics([self._partition.topic]):
            raise StateCorrupted(
                f"there is no topic {self._partition.topic}: the job was submitted to an older release. Submit it "
                "again, or run its drivers with HOLDFAST_SPARK_CHECKPOINTS=shared"
            )
        received = self._follower.take(wanted)
        files = SentFiles(run.epoch, self._checkpoints.root, f"{run.epoch}-{secrets.token_hex(6)}")
        directory = self._taken_over(run, received, files)
        sender = FileSender(directory, files, self._partition, lambda: self._log.appender(f"files-{run.epoch}"))
        self._sender = run.epoch, sender
        self._follower.clear()  # the directory has links to what it needs
        return directory

    def save(self, write: Write) -> None:
        """Sends the files of a micro-batch that is about to be committed; raises as FileSender.save."""
        assert self._sender is not None, "a run prepares its checkpoint first"
        self._sender[1].save(write.k, write.attempt, write.log.last)

    def complete(self) -> None:
        if self._sender is not None:
            self._sender[1].complete()

    def close(self) -> None:
        self._follower.clear()
        self._end_sending()

    def _taken_over(self, run: Run, received: ReceivedFiles, files: SentFiles) -> Path:
        last = run.log.last
        if last is None:
            files.inherit(received, None, {})
            return self._checkpoints.rebuild(run.epoch, {}, self._checkpoints.root)
        try:
            found = received.as_of(last.epoch, last.k, last.attempt)
        except FilesMissing as missing:
            return self._from_folder(run, received, files, missing)
        paths = {path: self._follower.file(one.id) for path, one in found.items() if kept(path, last.k - 1, last.k - 1)}
        note = received.note(last.epoch, last.k, last.attempt)
        directory = self._checkpoints.rebuild(run.epoch, paths, note.root)
        there = marks(directory)
        changed = self._checkpoints.rewritten(directory)
        files.inherit(received, last, {path: mark for path, mark in there.items() if path not in changed})
        return directory

    def _from_folder(self, run: Run, received: ReceivedFiles, files: SentFiles, missing: FilesMissing) -> Path:
        """The checkpoint of a driver that did not send its files, if its directory is on this machine."""
        former = -1 if run.log.last is None else run.log.last.epoch
        start = takeover(run.log, self._checkpoints.done(former))
        if not self._checkpoints.holds(start):
            folder = self._checkpoints.root
            raise StateCorrupted(f"{self._partition}: {missing}, and {folder} does not have them") from None
        files.inherit(received, None, {})
        return self._checkpoints.prepare(run.epoch, start)

    def _end_sending(self) -> None:
        if self._sender is not None:
            self._sender[1].close()
            self._sender = None
