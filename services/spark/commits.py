"""A driver's access to the commit log: it appends records, and acts only on records that it reads back.

Source: PROTOCOL 12 and 0.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from holdfast.schemas.commits import Commit, CommitRecord, encode
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.commits import CommitLog, CommitReader, Fits
from holdfast.services.kernel.errors import Fenced, PositionGone, Retriable, StateCorrupted
from holdfast.services.kernel.plurals import plural
from holdfast.services.log.protocol import Appender, Log

ANSWER_S = 60.0

ReadBack = Callable[[Exception | None], None]
"""A function called when the record was read back: with None if it is valid, Fenced if another copy came first,
StateCorrupted if it does not fit for another reason, or Retriable if Kafka did not append it."""


@dataclass(slots=True)
class _Proposal:
    """A record on its way; `offset` is -1 until Kafka has returned it."""

    record: CommitRecord
    done: ReadBack
    offset: int = -1
    failed: Exception | None = None


class Commits:
    """The commit log of one operator, read by one driver. For the host's loop; no method blocks."""

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
        begins: Callable[[], tuple[int, Commit] | None] = lambda: None,
    ) -> None:
        """Opens the log.

        Args:
            fits: checks a frame's payload.
            refuse: called with a record that cannot be decoded or does not fit.
            skipped: offsets of records that a person has skipped.
            begins: returns the commit with which a trimmed log begins; called again after PositionGone and Retriable.
        """
        self._refuse = refuse
        self._refused = (-1, "")
        self._skipped = skipped
        self._first = first
        self._fits = fits
        self._begins = begins
        self._begun = False
        self.fold = CommitLog(first, refuse=self._note)
        self._records = CommitReader(self.fold, fits, self._note, holds=False)
        self._partition = Partition(topic, 0)
        self._reader = log.reader(f"commits-{name}")
        self._appender = log.appender(f"commits-{name}")
        self._next = 0
        self._proposals: list[_Proposal] = []

    def follow(self) -> int:
        """Reads new records. Returns the number of valid commits. Raises StateCorrupted."""
        self._appender.poll()
        if not self._begun and not self._begin():
            return 0
        k = self.fold.k
        for chunk in self._reader.poll(0):
            for message in chunk.messages:
                self._take(message.offset(), message.value() or b"")
        self._settle()
        return self.fold.k - k

    def _begin(self) -> bool:
        """Finds the beginning of the log. True if it is known."""
        try:
            base = self._begins()
        except (PositionGone, Retriable):
            return False
        if base is not None:
            self.fold = CommitLog(self._first, *base, refuse=self._note)
            self._records = CommitReader(self.fold, self._fits, self._note, holds=False)
        self._reader.assign({self._partition: self.fold.upto})
        self._begun = True
        return True

    def propose(self, record: CommitRecord, done: ReadBack) -> None:
        """Appends a record; `follow` reads it back and calls `done`."""
        proposal = _Proposal(record, done)

        def answered(error: Exception | None, offset: int) -> None:
            proposal.offset, proposal.failed = offset, error

        self._proposals.append(proposal)
        self._appender.append(self._partition, encode(record), done=answered)

    def close(self) -> None:
        self._proposals.clear()
        self._reader.close()
        self._appender.close()

    def _take(self, offset: int, value: bytes) -> None:
        self._next = offset + 1
        if offset not in self._skipped and isinstance(self._records.read(offset, value), Commit):
            self._records.forget()

    def _settle(self) -> None:
        settled = [one for one in self._proposals if one.failed is not None or 0 <= one.offset < self._next]
        self._proposals = [one for one in self._proposals if one not in settled]
        for proposal in settled:
            proposal.done(proposal.failed or self._fault(proposal))

    def _fault(self, proposal: _Proposal) -> Exception | None:
        record, last = proposal.record, self.fold.last
        counts = not isinstance(record, Commit) or (last is not None and last.id == record.id)
        if counts and self.fold.epoch == record.epoch:
            return None
        if self._refused[0] == proposal.offset and self.fold.epoch <= record.epoch:
            return StateCorrupted(f"{self._partition} offset {proposal.offset}: {self._refused[1]}")
        return Fenced(f"{self._partition}: epoch {record.epoch} is over, epoch {self.fold.epoch} has begun")

    def _note(self, offset: int, cause: str) -> None:
        self._refused = offset, cause
        self._refuse(self._partition, offset, cause)


def put(appender: Appender, partition: Partition, values: Sequence[bytes]) -> list[int]:
    """Appends records that a commit will name. Returns their offsets. Blocks; raises Retriable."""
    found: list[int] = []
    failed: list[Exception] = []

    def done(error: Exception | None, offset: int) -> None:
        if error is None:
            found.append(offset)
        else:
            failed.append(error)

    for value in values:
        appender.append(partition, value, done=done)
    appender.flush(ANSWER_S)
    if len(found) < len(values):
        raise Retriable(f"{partition}: {plural(len(values) - len(found), 'record')} not appended: {failed[:1]}")
    return found
