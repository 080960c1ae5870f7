"""Turns the commit log of a Spark operator into the valid micro-batches with their rows.

Source: PROTOCOL 12: the rows that valid commits name are emitted, and no others; so a micro-batch that ran twice, a
task that was retried, or a driver that woke too late cannot double or mix rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.schemas.commits import Commit, decode
from holdfast.services.decisions.commits import CommitLog, CommitReader, Fits, Refuse
from holdfast.services.kernel.dataflow.micro_batches import MicroBatch
from holdfast.services.kernel.errors import StateCorrupted


class Recut:
    """Reads one partition in offset order.

    Args:
        start: the first offset that no cut has taken; a cut ends just after a valid commit.
        first: the positions at which Spark begins to read, as in the plan.
        fits: checks a payload before it is used.
        refuse: called with values that are no records or do not fit.
    """

    def __init__(
        self,
        start: int,
        first: Mapping[str, Mapping[int, int]],
        fits: Fits = lambda header, payload: None,
        refuse: Refuse = lambda offset, cause: None,
    ) -> None:
        self._start = start
        self._first = first
        self._fits = fits
        self._refuse = refuse
        self._reader = self._read_by(CommitLog(first, refuse=refuse)) if start == 0 else None

    def _read_by(self, log: CommitLog) -> CommitReader:
        return CommitReader(log, self._fits, self._refuse, holds=True)

    @property
    def position(self) -> int:
        """Offset at which reading begins: that of the last commit before the start, which the next commit must
        follow.
        """
        return max(0, self._start - 1)

    def read(self, offset: int, value: bytes) -> MicroBatch | None:
        """Takes a record; returns the micro-batch that it makes valid, if it does.

        Raises:
            StateCorrupted: the log does not hold the records that cuts or commits name.
        """
        if self._reader is None:
            self._begin(offset, value)
            return None
        record = self._reader.read(offset, value)
        if not isinstance(record, Commit):
            return None
        payloads = tuple(self._reader.frames[frame.offset] for frame in record.frames)
        dead = tuple(letter for one in record.dead if (letter := self._reader.dead[one]) is not None)
        self._reader.forget()
        return MicroBatch(offset, record, payloads, dead)

    def _begin(self, offset: int, value: bytes) -> None:
        if offset < self.position:
            return
        try:
            record = decode(value) if offset == self.position else None
        except msgspec.DecodeError:
            record = None
        if not isinstance(record, Commit):
            raise StateCorrupted(f"a cut ends at {self._start}, but no commit lies just before it")
        self._reader = self._read_by(CommitLog(self._first, offset, record, self._refuse))
