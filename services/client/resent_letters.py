"""Dead letters back to the topics that their records came from, each once.

What is sent and how far it has come commit in one transaction, so neither a crash nor a second call sends one twice.
The record is read again from its topic, for its key, its headers and all of its bytes; where it is gone, what the dead
letter holds is sent. A header says which record it repeats. Of records that a person has mended in a file, key and
value are those of the file, and each has a mark of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from holdfast.schemas.dead_letters import MAX_RAW_BYTES, DeadLetter, Position, Replayed, decode, decode_replayed, encode
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.late.expected_records import ExpectedRecords
from holdfast.services.log.protocol import Log, Message, Rows, Transactor

HEADER = "replay-of"
"""Names the record that is repeated: topic/partition/offset."""
_ALL = b"replayed"
"""The key of the mark that stands for all letters up to an offset; it ends each transaction."""
TOGETHER, TOGETHER_BYTES = 500, 8 * 1024 * 1024
"""Limits of a transaction."""


@dataclass(slots=True)
class Resent:
    """Outcome of a call.

    sent: number of records, by topic.
    earlier: records not sent, because an earlier call sent them.
    again: records not sent, because they were sent before and refused again.
    of_operators: dead letters not sent, because they are rows of operators.
    gone: records not sent, because neither the topic nor the dead letter has all bytes.
    """

    sent: dict[str, int] = field(default_factory=dict)
    earlier: int = 0
    again: int = 0
    of_operators: int = 0
    gone: int = 0

    def as_plain(self) -> dict[str, Any]:
        return asdict(self)


Mended = Mapping[Position, tuple[bytes | None, bytes | None]]
"""Key and value of the corrected record, by the position of the original."""


def resend(
    log: Log, topics: JobTopics, present: Mapping[str, int], *, again: bool = False, mended: Mended | None = None
) -> Resent:
    """Sends the records that were not sent yet; another process that resends them is fenced.

    Args:
        present: number of partitions, by existing topic.
        again: true to include records that were sent back before and were refused again.
        mended: only these records, with these keys and values.

    Raises:
        CommandFailed: one of them is no dead letter of the job; nothing is sent.
    """
    if mended is not None:
        _check(log, topics, mended)
    log.create([topics.replayed])
    transactor = log.transactor(topics.transactional_id("replay"))
    originals = Originals(log, present)
    try:
        transactor.start()
        return _Resending(log, topics, transactor, originals).run(again, mended)
    finally:
        originals.close()
        transactor.close()


def letters_of(log: Log, topics: JobTopics) -> Iterator[tuple[int, DeadLetter]]:
    """Every dead letter of a job, with its offset."""
    for message in log.scan(Partition(topics.dead_letters, 0)):
        try:
            yield message.offset(), decode(message.value() or b"")
        except msgspec.DecodeError:
            continue


def _check(log: Log, topics: JobTopics, mended: Mended) -> None:
    there = {
        Position(one.topic, one.partition, one.offset) for _, one in letters_of(log, topics) if not one.of_operator
    }
    if others := [at for at in mended if at not in there]:
        at = others[0]
        more = f", nor are {len(others) - 1} more" if len(others) > 1 else ""
        message = f"{at.topic}[{at.partition}] offset {at.offset} is no dead letter of {topics.job}{more}"
        raise CommandFailed(message, "nothing was sent; `holdfast dead-letters JOB --export FILE` writes such a file")


def _name(letter: DeadLetter) -> bytes:
    return f"{letter.topic}/{letter.partition}/{letter.offset}".encode()


class _Resending:
    """A call of the command."""

    def __init__(self, log: Log, topics: JobTopics, transactor: Transactor, originals: Originals) -> None:
        self._log = log
        self._transactor = transactor
        self._originals = originals
        self._topics = topics
        self._names: list[bytes] = []
        self._marks = Partition(topics.replayed.name, 0)
        self._rows: list[Rows] = []
        self._bytes = 0
        self._found = Resent()

    def run(self, again: bool, mended: Mended | None) -> Resent:
        last = self._log.last(self._marks, settled=True)
        mark = Replayed() if last is None else decode_replayed(last.value() or b"{}")
        done = {message.key() for message in self._log.scan(self._marks)}
        if mended is not None:
            self._run_mended(mended, mark, done, again)
            return self._found
        upto, upto_again = mark.upto, mark.again
        for offset, letter in letters_of(self._log, self._topics):
            if letter.of_operator:
                self._found.of_operators += 1
                continue
            original = self._originals.of(letter)
            repeated = original is not None and HEADER in dict(original.headers() or ())
            if _name(letter) in done or offset < (upto_again if repeated else upto):
                self._found.earlier += 1
            elif repeated and not again:
                self._found.again += 1
            else:
                self._take(letter, original)
            upto, upto_again = max(upto, offset + 1), max(upto_again, offset + 1 if again else 0)
            if len(self._rows) >= TOGETHER or self._bytes > TOGETHER_BYTES:
                self._commit(Replayed(upto, upto_again))
        self._commit(Replayed(upto, upto_again))
        return self._found

    def _run_mended(self, mended: Mended, mark: Replayed, done: Collection[bytes | None], again: bool) -> None:
        """Each is marked by its own name, since a file holds any of the letters; marks of all others stay."""
        for offset, letter in letters_of(self._log, self._topics):
            at = Position(letter.topic, letter.partition, letter.offset)
            if letter.of_operator or at not in mended:
                continue
            original = self._originals.of(letter)
            repeated = original is not None and HEADER in dict(original.headers() or ())
            sent = _name(letter) in done or offset < (mark.again if repeated else mark.upto)
            if sent and not again:
                self._found.earlier += 1
                continue
            if not self._originals.has_topic(letter):
                self._found.gone += 1
                continue
            key, value = mended[at]
            self._send(letter, original, key, value)
            self._names.append(_name(letter))
            if len(self._rows) >= TOGETHER or self._bytes > TOGETHER_BYTES:
                self._commit(mark)
        self._commit(mark)

    def _take(self, letter: DeadLetter, original: Message | None) -> None:
        if original is None and (letter.truncated or not self._originals.has_topic(letter)):
            self._found.gone += 1
            return
        value = letter.raw if original is None else original.value()
        self._send(letter, original, None if original is None else original.key(), value)

    def _send(self, letter: DeadLetter, original: Message | None, key: bytes | None, value: bytes | None) -> None:
        headers = [] if original is None else [one for one in original.headers() or () if one[0] != HEADER]
        headers.append((HEADER, _name(letter)))
        self._rows.append(Rows(letter.topic, [value], keys=[key], partitions=[letter.partition], headers=headers))
        self._bytes += len(value or b"")

    def _commit(self, mark: Replayed) -> None:
        """Commits the mark together with the sent rows; without rows the mark need not move."""
        if not self._rows:
            return
        rows, self._rows, self._bytes = self._rows, [], 0
        names, self._names = [*self._names, _ALL], []
        marks = Rows(self._marks.topic, [encode(mark)] * len(names), keys=names, partitions=[0] * len(names))
        self._transactor.commit([*rows, marks])
        for one in rows:
            self._found.sent[one.topic] = self._found.sent.get(one.topic, 0) + 1


class Originals:
    """Reads the original records in their topics, in stretches, because consecutive requests
    are mostly for neighbours.
    """

    def __init__(self, log: Log, present: Mapping[str, int]) -> None:
        self._log = log
        self._present = present
        self._reader = log.reader("originals")
        self._bounds: dict[Partition, tuple[int, int]] = {}
        self._read: dict[tuple[Partition, int], Message] = {}

    def has_topic(self, letter: DeadLetter) -> bool:
        return letter.partition < self._present.get(letter.topic, 0)

    def of(self, letter: DeadLetter) -> Message | None:
        """The original record of a dead letter; None if the topic no longer holds it."""
        at = Partition(letter.topic, letter.partition)
        if not self.has_topic(letter) or not self._holds(at, letter.offset):
            return None
        if (at, letter.offset) not in self._read:
            self._read = self._fetch(at, letter.offset)
        found = self._read.get((at, letter.offset))
        # a topic that was created again holds other records at the same places
        return found if found is not None and (found.value() or b"")[:MAX_RAW_BYTES] == letter.raw else None

    def close(self) -> None:
        self._reader.close()

    def _holds(self, at: Partition, offset: int) -> bool:
        if at not in self._bounds:
            start, end = (self._log.offsets([at], bound)[at] for bound in ("start", "end"))
            self._bounds[at] = (start, end)
        start, end = self._bounds[at]
        return start <= offset < end

    def _fetch(self, at: Partition, offset: int) -> dict[tuple[Partition, int], Message]:
        """A stretch from the offset on."""
        self._reader.assign({at: offset})
        expecting = ExpectedRecords(self._log, self._reader)
        try:
            while True:
                for chunk in expecting.poll((at,), 0.1, TOGETHER):
                    if self._reader.current(chunk) and chunk.partition == at:
                        return {(at, message.offset()): message for message in chunk.messages}
        finally:
            self._reader.unassign([at])
