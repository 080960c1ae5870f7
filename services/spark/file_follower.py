"""A copy of the files of a query's checkpoint that a driver keeps as they come, so that it can take over.

Source: PROTOCOL 12.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.schemas.query_files import FileId, decode
from holdfast.schemas.topics import Partition
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.errors import HoldfastError, Retriable
from holdfast.services.log.protocol import Log, Message
from holdfast.services.spark.core.received_files import Arrived, Gone, ReceivedFiles

POLL_S = 0.05
"""Longest wait for records; the end of a reading waits as long."""

_log = get_logger()


class _Following:
    """A reading of the topic from its start, in a thread. `files` is complete up to `position`."""

    def __init__(self, log: Log, partition: Partition, folder: Path) -> None:
        self.files = ReceivedFiles()
        self.position = 0
        self.error: Exception | None = None
        self._log = log
        self._partition = partition
        self._folder = folder
        self._stopped = threading.Event()
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._work, name=f"files {partition.topic}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits for the end of the thread, so that nothing changes any more."""
        self._stopped.set()
        self._thread.join()

    def reaches(self, end: int, timeout_s: float) -> bool:
        """Waits until all records below `end` are read, or none will be."""
        with self._moved:
            return self._moved.wait_for(lambda: self.position >= end or self.error is not None, timeout_s)

    def _work(self) -> None:
        try:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(parents=True)
            self._follow()
        except (HoldfastError, OSError) as error:
            self._move(self.position, error)

    def _move(self, position: int, error: Exception | None = None) -> None:
        with self._moved:
            self.position = position
            self.error = error
            self._moved.notify_all()

    def _follow(self) -> None:
        reader = self._log.reader(f"query-files-{self._partition.topic}")
        try:
            start = self._log.offsets([self._partition], "start")[self._partition]
            reader.assign({self._partition: start})
            self._move(start)
            while not self._stopped.is_set():
                for chunk in reader.poll(POLL_S):
                    for message in chunk.messages:
                        self._take(message)
                    last = chunk.messages[-1].offset() + 1 if chunk.messages else 0
                    self._move(max(self.position, last, chunk.end or 0))
        finally:
            reader.close()

    def _take(self, message: Message) -> None:
        value = message.value()
        try:
            found = self.files.read(message.key() or b"", None if value is None else decode(value))
        except (ValueError, msgspec.DecodeError) as error:  # what counts would be missing then, and a takeover says so
            _log.warning("record refused", at=f"{self._partition} {message.offset()}", cause=str(error))
            found = None
        if isinstance(found, Arrived):
            path = path_of(self._folder, found.id)
            with path.open("r+b" if path.exists() else "w+b") as file:
                file.seek(found.at)
                file.write(found.content)
        elif isinstance(found, Gone):
            path_of(self._folder, found.id).unlink(missing_ok=True)


class FileFollower:
    """Keeps the copy in `folder`, which is its own."""

    def __init__(self, log: Log, partition: Partition, folder: Path) -> None:
        self._log = log
        self._partition = partition
        self._folder = folder
        self._following: _Following | None = None

    def follow(self) -> None:
        """Begins to read, if it does not read already."""
        if self._following is not None and self._following.error is not None:
            self.stop()
        if self._following is None:
            self._following = _Following(self._log, self._partition, self._folder)

    def take(self, wanted: Callable[[], bool]) -> ReceivedFiles:
        """Reads up to the present end and stops.

        Args:
            wanted: False to give up.

        Raises:
            Retriable: Kafka does not answer, or `wanted` returns False.
        """
        end = self._log.offsets([self._partition], "end")[self._partition]
        self.follow()
        following = self._following
        assert following is not None
        while not following.reaches(end, POLL_S):
            if not wanted():
                raise Retriable("the copy of the files is not needed any more")
        self.stop()
        if following.error is not None:
            raise following.error
        return following.files

    def stop(self) -> None:
        if self._following is not None:
            self._following.stop()
            self._following = None

    def clear(self) -> None:
        """Stops and deletes the copy."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def file(self, id: FileId) -> Path:
        return path_of(self._folder, id)


def path_of(folder: Path, id: FileId) -> Path:
    return folder / f"{id.writer}-{id.number}"
