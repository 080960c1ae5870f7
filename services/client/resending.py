"""Resending: dead letters back to the topics that their records came from, each once.

What is sent and how far it has come commit in one transaction, so neither a crash nor a second call sends one twice.
The record is read again from its topic, for its key, its headers and all of its bytes; where it is gone, what the dead
letter holds is sent. A header says which record it repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from holdfast.schemas.dead_letters import MAX_RAW_BYTES, DeadLetter, Replayed, decode, decode_replayed, encode
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.log.expecting import Expecting
from holdfast.services.log.protocol import Log, Message, Rows, Transactor

HEADER = "replay-of"
"""Names the record that is repeated: topic/partition/offset."""
TOGETHER, TOGETHER_BYTES = 500, 8 * 1024 * 1024
"""Limits of a transaction."""


@dataclass(slots=True)
class Resent:
    """sent: by topic. Not sent: earlier = in an earlier call; again = sent before and refused again; of_operators =
    rows, not records; gone = records of which neither the topic nor the dead letter has all bytes.
    """

    sent: dict[str, int] = field(default_factory=dict)
    earlier: int = 0
    again: int = 0
    of_operators: int = 0
    gone: int = 0

    def as_plain(self) -> dict[str, Any]:
        return asdict(self)


def resend(log: Log, topics: JobTopics, present: Mapping[str, int], *, again: bool = False) -> Resent:
    """Sends what has not been sent yet; another one at it is fenced off.

    Args:
        present: partitions of the topics there are.
        again: also records that were sent back before and were refused again.
    """
    log.create([topics.replayed])
    transactor = log.transactor(topics.transactional_id("replay"))
    originals = _Originals(log, present)
    try:
        transactor.start()
        return _Resending(log, topics, transactor, originals).run(again)
    finally:
        originals.close()
        transactor.close()


class _Resending:
    """A call of the command."""

    def __init__(self, log: Log, topics: JobTopics, transactor: Transactor, originals: _Originals) -> None:
        self._log, self._transactor, self._originals = log, transactor, originals
        self._letters = Partition(topics.dead_letters, 0)
        self._marks = Partition(topics.replayed.name, 0)
        self._rows: list[Rows] = []
        self._bytes = 0
        self._found = Resent()

    def run(self, again: bool) -> Resent:
        last = self._log.last(self._marks, settled=True)
        mark = Replayed() if last is None else decode_replayed(last.value() or b"{}")
        upto, upto_again = mark.upto, mark.again
        for offset, letter in self._read():
            if letter.of_operator:
                self._found.of_operators += 1
                continue
            original = self._originals.of(letter)
            repeated = original is not None and HEADER in dict(original.headers() or ())
            if offset < (upto_again if repeated else upto):
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

    def _read(self) -> Iterator[tuple[int, DeadLetter]]:
        for message in self._log.scan(self._letters):
            try:
                yield message.offset(), decode(message.value() or b"")
            except msgspec.DecodeError:
                continue

    def _take(self, letter: DeadLetter, original: Message | None) -> None:
        if original is None and (letter.truncated or not self._originals.has_topic(letter)):
            self._found.gone += 1
            return
        value = letter.raw if original is None else original.value()
        headers = [] if original is None else [one for one in original.headers() or () if one[0] != HEADER]
        headers.append((HEADER, f"{letter.topic}/{letter.partition}/{letter.offset}".encode()))
        keys = [None if original is None else original.key()]
        self._rows.append(Rows(letter.topic, [value], keys=keys, partitions=[letter.partition], headers=headers))
        self._bytes += len(value or b"")

    def _commit(self, mark: Replayed) -> None:
        """The mark moves only with what it stands for; where nothing is sent it may as well stay."""
        if not self._rows:
            return
        rows, self._rows, self._bytes = self._rows, [], 0
        self._transactor.commit([*rows, Rows(self._marks.topic, [encode(mark)], keys=[b"replayed"], partitions=[0])])
        for one in rows:
            self._found.sent[one.topic] = self._found.sent.get(one.topic, 0) + 1


class _Originals:
    """Records as they lie in their topics; those asked for one after the other tend to lie side by side."""

    def __init__(self, log: Log, present: Mapping[str, int]) -> None:
        self._log, self._present = log, present
        self._reader = log.reader("originals")
        self._bounds: dict[Partition, tuple[int, int]] = {}
        self._read: dict[tuple[Partition, int], Message] = {}

    def has_topic(self, letter: DeadLetter) -> bool:
        return letter.partition < self._present.get(letter.topic, 0)

    def of(self, letter: DeadLetter) -> Message | None:
        """None where the topic does not hold it any more."""
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
        expecting = Expecting(self._log, self._reader)
        try:
            while True:
                for chunk in expecting.poll((at,), 0.1, TOGETHER):
                    if self._reader.current(chunk) and chunk.partition == at:
                        return {(at, message.offset()): message for message in chunk.messages}
        finally:
            self._reader.unassign([at])
