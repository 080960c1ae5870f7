"""The sender of the files of a query's checkpoint, for one epoch.

Source: PROTOCOL 12. The thread of a micro-batch sends files before the commit is proposed; the thread of the run sends
Spark's note that the micro-batch is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from holdfast.schemas.commits import Commit
from holdfast.schemas.query_files import PIECE_BYTES, Piece, encode, piece_key
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import HoldfastError, Retriable, StateCorrupted
from holdfast.services.log.protocol import Appender
from holdfast.services.spark.checkpoint import marks
from holdfast.services.spark.commits import ANSWER_S
from holdfast.services.spark.core.checkpoint_files import lacking
from holdfast.services.spark.core.query_files import Stored, pieces_of, sum_of, sum_with
from holdfast.services.spark.core.sent_files import Draft, Mark, SentFiles

MOST_WAITING = 16 * 1024 * 1024
"""Bytes of pieces that wait for Kafka's answer at a time."""
NOTE_S = 5.0
"""Longest wait for the answer to Spark's note."""


class FileSender:
    """Sends the files of the checkpoint in `directory`.

    Args:
        open_appender: opens an appender; called again after an error.
    """

    def __init__(
        self, directory: Path, files: SentFiles, partition: Partition, open_appender: Callable[[], Appender]
    ) -> None:
        self.directory = directory
        self._files = files
        self._partition = partition
        self._open = open_appender
        self._appender: Appender | None = None
        self._waiting = 0
        self._lock = threading.Lock()
        self._undone: int | None = None
        self._closed = False

    def save(self, k: int, attempt: int, last: Commit | None) -> None:
        """Sends the files that are new since the last call, and the note of micro-batch k. Blocks until Kafka has all.

        Args:
            last: the last valid commit.

        Raises:
            StateCorrupted: state of the micro-batch is not in the directory.
            Retriable: Kafka has not appended all.
        """
        with self._lock:
            found = marks(self.directory)
            if without := lacking(found, k - 1):
                raise StateCorrupted(
                    f"{self.directory} does not hold the state of micro-batch {k} in {', '.join(without[:3])}: the "
                    "driver and its executors need one file system for HOLDFAST_SPARK_DIR, also with "
                    "HOLDFAST_SPARK_CHECKPOINTS=kafka"
                )
            draft = self._files.draft(found)
            self._try(draft, lambda: self._send_all(draft, found, (k, attempt), last))
            self._undone = k - 1

    def complete(self) -> None:
        """Sends Spark's note that the last micro-batch is done, once it is there. Does nothing while a micro-batch is
        being saved. If Kafka does not take it, a driver that takes over runs the micro-batch again for its state."""
        if self._undone is None or not self._lock.acquire(blocking=False):
            return
        try:
            path = f"commits/{self._undone}"
            file = self.directory / path
            if not file.exists():
                return
            self._undone, stat = None, file.stat()
            draft = Draft((path,))
            mark = Mark(stat.st_size, stat.st_mtime_ns, stat.st_ino)
            with suppress(HoldfastError):
                self._try(draft, lambda: self._send_one(draft, path, mark))
        finally:
            self._lock.release()

    def close(self) -> None:
        """Closes the sender; a micro-batch that is still being saved by a thread of a former run then fails."""
        with self._lock:
            self._closed = True
            self._close()

    def _try(self, draft: Draft, deed: Callable[[], None]) -> None:
        try:
            deed()
        except Exception:
            self._files.lose(draft)
            self._close()
            raise

    def _send_all(self, draft: Draft, found: dict[str, Mark], of: tuple[int, int], last: Commit | None) -> None:
        for key in self._files.forgettable(last):
            self._append(key, None)
        for path in draft.send:
            self._send(draft, path, found[path])
        key, note = self._files.note(draft, *of)
        self._append(key, encode(note))
        self._flush()
        self._files.forget(last)

    def _send_one(self, draft: Draft, path: str, mark: Mark) -> None:
        self._send(draft, path, mark)
        self._flush(NOTE_S)
        self._files.take(draft)

    def _send(self, draft: Draft, path: str, mark: Mark) -> None:
        """Sends a file; nothing of one that Spark has deleted meanwhile, because it is old."""
        try:
            file = (self.directory / path).open("rb")
        except FileNotFoundError:
            return
        with file:
            count, sum = pieces_of(mark.size), 0
            id = self._files.begin(draft, count)
            for index in range(count):
                content = file.read(PIECE_BYTES)
                of_one = sum_of(content)
                sum = sum_with(sum, index, of_one)
                self._append(piece_key(id, index), encode(Piece(path, count, of_one, content)))
        self._files.add(draft, path, Stored(id, count, sum), mark)

    def _append(self, key: bytes, value: bytes | None) -> None:
        if self._closed:
            raise Retriable("the epoch is over on this driver")
        if self._appender is None:
            self._appender = self._open()
        self._appender.append(self._partition, value, key=key)
        self._waiting += len(value or b"")
        if self._waiting > MOST_WAITING:
            self._flush()

    def _flush(self, timeout_s: float = ANSWER_S) -> None:
        self._waiting = 0
        if self._appender is not None:
            self._appender.flush(timeout_s)

    def _close(self) -> None:
        appender, self._appender, self._waiting = self._appender, None, 0
        if appender is not None:
            appender.close()
