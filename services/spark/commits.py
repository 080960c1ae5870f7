"""A driver's door to the commit log: it appends, and acts only on what it reads back.

Source: PROTOCOL 12 and 0.1.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from schemas.commits import Commit, CommitRecord, encode
from schemas.topics import Partition
from services.kernel.errors import Fenced, Retriable, StateCorrupted
from services.kernel.logs.commits import CommitLog, CommitReader, Fits
from services.log.protocol import Log

ANSWER_S = 60.0


class Commits:
    """The commit log of one operator as one driver sees it; its methods may be called from several threads."""

    def __init__(
        self,
        log: Log,
        topic: str,
        first: Mapping[str, Mapping[int, int]],
        name: str,
        *,
        fits: Fits,
        refuse: Callable[[Partition, int, str], None],
        skipped: Collection[int] = (),
    ) -> None:
        """fits: looks into a frame's payload. refuse: called with what is no record, or does not fit. skipped: offsets
        of records that a person has skipped."""
        self._refuse, self._refused = refuse, (-1, "")
        self.skipped = skipped
        self.fold = CommitLog(first, refuse=self._note)
        self._records = CommitReader(self.fold, fits, self._note, holds=False)
        self._partition = Partition(topic, 0)
        self._reader = log.reader(f"commits-{name}")
        self._appender = log.appender(f"commits-{name}")
        self._lock = threading.RLock()
        self._reader.assign({self._partition: 0})
        self._end = -1
        self._next = 0

    def follow(self, timeout_s: float) -> None:
        """Reads what has come."""
        with self._lock:
            for chunk in self._reader.poll(timeout_s):
                for message in chunk.messages:
                    self._take(message.offset(), message.value() or b"")
                if chunk.end is not None:
                    self._end = max(self._end, chunk.end)

    def propose(self, record: CommitRecord) -> None:
        """Appends and reads back.

        Raises:
            Fenced: it is not valid: another driver has taken over, or has committed.
            StateCorrupted: what was appended does not fit, though nobody was faster.
            Retriable: the broker does not answer.
        """
        with self._lock:
            (offset,) = self.put([encode(record)])
            deadline = time.monotonic() + ANSWER_S
            while self._next <= offset:
                if time.monotonic() > deadline:
                    raise Retriable(f"{self._partition}: what was appended at {offset} cannot be read back")
                self.follow(0.05)
            last = self.fold.last
            valid = self.fold.epoch == record.epoch and (
                not hasattr(record, "k") or (last is not None and last.id == record.id)
            )
            if not valid and self._refused[0] == offset and self.fold.epoch <= record.epoch:
                raise StateCorrupted(f"{self._partition} offset {offset}: {self._refused[1]}")
            if not valid:
                raise Fenced(f"{self._partition}: epoch {record.epoch} is over, epoch {self.fold.epoch} has begun")

    def put(self, values: Sequence[bytes]) -> list[int]:
        """Appends records that a commit is to name; their offsets. Raises Retriable."""
        found: list[int] = []
        failed: list[Exception] = []

        def done(error: Exception | None, offset: int) -> None:
            if error is None:
                found.append(offset)
            else:
                failed.append(error)

        with self._lock:
            for value in values:
                self._appender.append(self._partition, value, done=done)
            self._appender.flush(ANSWER_S)
        if len(found) < len(values):
            raise Retriable(f"{self._partition}: {len(values) - len(found)} records were not appended: {failed[:1]}")
        return found

    def _take(self, offset: int, value: bytes) -> None:
        self._next = offset + 1
        if offset not in self.skipped and isinstance(self._records.read(offset, value), Commit):
            self._records.forget()

    def _note(self, offset: int, cause: str) -> None:
        self._refused = offset, cause
        self._refuse(self._partition, offset, cause)

    def close(self) -> None:
        with self._lock:
            self._reader.close()
            self._appender.close()
