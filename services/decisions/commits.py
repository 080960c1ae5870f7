"""Fold of the commit log of a Spark operator by every reader: the micro-batches that count.

Source: PROTOCOL 12. A commit is valid iff prev fits, k = last + 1, it starts where the last one stopped, it names each
of its frames once, these come after the last commit and the last fence, and no fence of a higher epoch precedes it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

import msgspec

from holdfast.schemas import dead_letters
from holdfast.schemas.commits import DEAD, Commit, CommitRecord, Fence, Heard, Positions, decode, is_frame
from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.decided import Id
from holdfast.schemas.frames import Header, unpack
from holdfast.services.kernel.codecs.frames import payload_of
from holdfast.services.kernel.errors import StateCorrupted

MOST_EPOCHS = 1_000_000
"""Largest number of epochs between two records; an epoch is one assignment of the unit."""

Refuse = Callable[[int, str], None]
"""Called with the offset of a record that is invalid although it lost no race, and the cause."""
Fits = Callable[[Header, memoryview], None]
"""Raises ValueError if a payload does not hold rows of the operator."""


def _nothing(*_: object) -> None:
    pass


class _Everything:
    """All frames, for a reader that does not check them."""

    def __contains__(self, offset: object) -> bool:
        return True


EVERYTHING = _Everything()


class CommitLog:
    """Folds the records of one commit log in offset order.

    Args:
        first: the positions at which reading begins, as in the plan.
        at, last: offset of a valid commit and the commit, for a reader that starts there.
        refuse: called with records that do not fit, except those that lost a race against a fence, as in every
            takeover.
    """

    def __init__(
        self,
        first: Mapping[str, Mapping[int, int]],
        at: int = -1,
        last: Commit | None = None,
        refuse: Refuse = _nothing,
    ) -> None:
        self._refuse = refuse
        self._first: Positions = {topic: dict(offsets) for topic, offsets in first.items()}
        self.last = last
        self.at = at
        self.epoch = 0 if last is None else last.epoch
        self.upto = at + 1

    @property
    def k(self) -> int:
        """The last valid micro-batch, 0 before the first."""
        return 0 if self.last is None else self.last.k

    @property
    def prev(self) -> Id | None:
        return None if self.last is None else self.last.id

    @property
    def stop(self) -> Positions:
        """Positions at which the input of the next micro-batch begins."""
        return self._first if self.last is None else self.last.stop

    @property
    def watermark(self) -> int:
        return NO_WATERMARK if self.last is None else self.last.watermark

    @property
    def heard(self) -> tuple[Heard, ...]:
        """The progress of each input partition."""
        return () if self.last is None else self.last.heard

    @property
    def ended(self) -> bool:
        return self.last is not None and self.last.final

    def read(
        self,
        offset: int,
        record: CommitRecord,
        frames: Container[int] = EVERYTHING,
        dead: Container[int] = EVERYTHING,
    ) -> bool:
        """Takes the record at `offset`; False if it is invalid, or was folded already, and changes nothing.

        Args:
            frames, dead: offsets of the frames and dead letters that a commit may name.
        """
        if offset < self.upto:
            return False
        self.upto = offset + 1
        if record.epoch < self.epoch or (isinstance(record, Fence) and record.epoch == self.epoch):
            return False
        fault = self._fault(offset, record, frames, dead)
        if fault:
            self._refuse(offset, fault)
            return False
        self.epoch = record.epoch
        if isinstance(record, Commit):
            self.last = record
            self.at = offset
        return True

    def decode(self, offset: int, value: bytes) -> CommitRecord | None:
        """Decodes a fence or a commit; None if the record is neither, which is reported."""
        try:
            return decode(value)
        except msgspec.DecodeError as error:
            if offset >= self.upto:
                self._refuse(offset, str(error))
            return None

    def _fault(self, offset: int, record: CommitRecord, frames: Container[int], dead: Container[int]) -> str:
        """Returns why a record of this epoch or a later one is invalid; empty if it is valid."""
        if record.epoch > self.epoch + MOST_EPOCHS:
            return f"epoch {record.epoch} after epoch {self.epoch}: no unit is assigned so often"
        if isinstance(record, Fence):
            return ""
        if self.ended:
            return "the last commit precedes it"
        if record.prev != self.prev or record.k != self.k + 1:
            return f"commit {record.k} does not follow on commit {self.k}"
        return self._of_inputs(record) or self._of_names(offset, record, frames, dead)

    def _of_inputs(self, commit: Commit) -> str:
        start, stop = commit.start, commit.stop
        if start != self.stop:
            return f"commit {commit.k} starts at {start}, not where the last one stopped, {self.stop}"
        if stop.keys() != start.keys() or not all(_onward(start[topic], stop[topic]) for topic in start):
            return f"commit {commit.k} goes from {start} to {stop}"
        if not self.watermark <= commit.watermark < END_WATERMARK:
            return f"the watermark of commit {commit.k} is {commit.watermark} after {self.watermark}"
        return ""

    def _of_names(self, offset: int, commit: Commit, frames: Container[int], dead: Container[int]) -> str:
        named = [frame.offset for frame in commit.frames]
        both = [*named, *commit.dead]
        wrong = {one for one in both if not self.at < one < offset}
        wrong |= {one for one in named if one not in frames} | {one for one in commit.dead if one not in dead}
        if wrong:
            return f"commit {commit.k} at {offset} names no frames at {sorted(wrong)}"
        return "" if len(set(both)) == len(both) else f"commit {commit.k} names a frame twice"


class CommitReader:
    """Reads the partition of one commit log in offset order: frames, dead letters, and the records that name them.

    Drivers and workers both use it, so that they agree on the valid records.

    Args:
        fits: checks a payload before it is used.
        refuse: called with values that are no records or do not fit.
        holds: true: keeps payloads and dead letters until a commit names them.
    """

    def __init__(self, log: CommitLog, fits: Fits, refuse: Refuse, holds: bool) -> None:
        self.log = log
        self._fits = fits
        self._refuse = refuse
        self._holds = holds
        self.frames: dict[int, memoryview] = {}
        self.dead: dict[int, DeadLetter | None] = {}
        self._next = log.upto
        self._holes: list[range] = []

    def read(self, offset: int, value: bytes) -> CommitRecord | None:
        """Takes a record; returns it if it is a valid fence or commit. The caller of a commit then calls `forget`.

        Raises:
            StateCorrupted: a commit names records that the log has lost.
        """
        if offset < self._next:
            return None
        if offset > self._next:
            self._holes.append(range(self._next, offset))
        self._next = offset + 1
        if is_frame(value):
            self._take(offset, value)
            return None
        record = self.log.decode(offset, value)
        if record is None:
            return None
        if isinstance(record, Commit):
            self._demand(offset, record)
        if not self.log.read(offset, record, self.frames, self.dead):
            return None
        if isinstance(record, Fence):
            self.forget()  # frames of drivers that can commit no more
        return record

    def forget(self) -> None:
        """Drops the frames read so far, which no later commit names."""
        self.frames.clear()
        self.dead.clear()
        self._holes.clear()

    def _take(self, offset: int, value: bytes) -> None:
        try:
            if value[:1] == DEAD:
                letter = dead_letters.decode(value.removeprefix(DEAD))
                self.dead[offset] = letter if self._holds else None
            else:
                self.frames[offset] = self._payload(value) if self._holds else self._payload(value)[:0]
        except (ValueError, msgspec.DecodeError) as error:
            self._refuse(offset, str(error))

    def _payload(self, frame: bytes) -> memoryview:
        header = unpack(frame)
        payload = payload_of(frame, header)
        if len(payload):
            self._fits(header, payload)
        return payload

    def _demand(self, offset: int, commit: Commit) -> None:
        """Raises StateCorrupted if the next commit names records that were never read."""
        if commit.prev != self.log.prev or commit.epoch < self.log.epoch:
            return
        named = (*(frame.offset for frame in commit.frames), *commit.dead)
        lost = [one for one in named if any(one in hole for hole in self._holes)]
        if lost:
            raise StateCorrupted(f"commit {commit.k} at {offset} names records at {lost}, which the log has lost")


def _onward(start: Mapping[int, int], stop: Mapping[int, int]) -> bool:
    """True if every partition stays or advances; a topic may have grown."""
    return all(stop.get(partition, -1) >= offset for partition, offset in start.items())
