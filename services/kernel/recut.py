"""From the commit log of a Spark operator to the micro-batches that count, with their rows.

Source: PROTOCOL 12: what the valid commits name is emitted, and nothing else; so a micro-batch that ran twice, a task
that was retried, or a driver that woke too late cannot double or mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from schemas import dead_letters
from schemas.commits import DEAD, Commit, CommitRecord, decode, is_frame
from schemas.dead_letters import DeadLetter
from schemas.frames import unpack
from services.kernel.commits import CommitLog
from services.kernel.errors import StateCorrupted
from services.kernel.frames import payload_of


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A valid commit at `offset`, and the payloads of its frames and its dead letters as it names them."""

    offset: int
    commit: Commit
    payloads: tuple[memoryview, ...]
    dead: tuple[DeadLetter, ...] = ()

    @property
    def rows(self) -> int:
        return sum(frame.rows for frame in self.commit.frames)

    @property
    def bytes(self) -> int:
        return sum(map(len, self.payloads)) + sum(len(letter.raw) for letter in self.dead)

    def dead_in(self, batch: int) -> list[DeadLetter]:
        """Its dead letters as those of a batch."""
        return [msgspec.structs.replace(letter, batch=batch) for letter in self.dead]


class Recut:
    """Reads one partition in offset order.

    Args:
        start: the first offset that no cut has taken; a cut ends just behind a valid commit.
        first: where the plan says that Spark begins to read.
    """

    def __init__(self, start: int, first: Mapping[str, Mapping[int, int]]) -> None:
        self._start, self._first = start, first
        self._log: CommitLog | None = CommitLog(first) if start == 0 else None
        self._frames: dict[int, bytes] = {}

    @property
    def position(self) -> int:
        """Where reading begins: at the commit behind which the start lies, which says what a next one must be."""
        return max(0, self._start - 1)

    def read(self, offset: int, value: bytes) -> MicroBatch | None:
        """Takes a record; the micro-batch that it makes valid, if it does.

        Raises:
            StateCorrupted: the log does not hold what the cuts or commits name.
        """
        if self._log is None:
            self._begin(offset, value)
            return None
        if offset < self._log.upto:
            return None
        if is_frame(value):
            self._frames[offset] = value
            return None
        return self._decide(self._log, offset, value)

    def _begin(self, offset: int, value: bytes) -> None:
        if offset < self.position:
            return
        record = None if offset != self.position or is_frame(value) else _decoded(value)
        if not isinstance(record, Commit):
            raise StateCorrupted(f"a cut ends at {self._start}, but no commit lies just before it")
        self._log = CommitLog(self._first, offset, record)

    def _decide(self, log: CommitLog, offset: int, value: bytes) -> MicroBatch | None:
        record, epoch = _decoded(value), log.epoch
        if record is None or not log.read(offset, record):
            return None
        if not isinstance(record, Commit):
            if log.epoch > epoch:
                self._frames.clear()  # of drivers that can commit no more
            return None
        named = (*(frame.offset for frame in record.frames), *record.dead)
        missing = [one for one in named if one not in self._frames]
        if missing:
            raise StateCorrupted(f"commit {record.k} at {offset} names no frames at {missing}")
        payloads = tuple(self._payload(frame.offset) for frame in record.frames)
        dead = tuple(self._dead(one) for one in record.dead)
        self._frames.clear()
        return MicroBatch(offset, record, payloads, dead)

    def _payload(self, offset: int) -> memoryview:
        frame = self._frames[offset]
        try:
            return payload_of(frame, unpack(frame))
        except ValueError as error:
            raise StateCorrupted(f"offset {offset}, which a commit names: {error}") from None

    def _dead(self, offset: int) -> DeadLetter:
        try:
            return dead_letters.decode(self._frames[offset].removeprefix(DEAD))
        except msgspec.DecodeError as error:
            raise StateCorrupted(f"offset {offset}, which a commit names as a dead letter: {error}") from None


def _decoded(value: bytes) -> CommitRecord | None:
    """A record that cannot be read is as invalid as one that does not fit."""
    try:
        return decode(value)
    except msgspec.DecodeError:
        return None
