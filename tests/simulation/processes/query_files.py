"""The checkpoint of a query without Spark whose files go through the simulated Kafka, as services/spark/query_files.py
sends those of a driver.

A checkpoint has the end of each batch, Spark's note that a batch is done, and a state: a hash over the ends of all
batches up to it. Old batches are deleted, and Kafka compacts now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING

import msgspec

from holdfast.schemas.commits import Commit, Positions
from holdfast.schemas.query_files import Piece, decode, encode, piece_key
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Retriable
from holdfast.services.spark.core.checkpoint_files import lacking
from holdfast.services.spark.core.query_files import Stored, sum_of, sum_with
from holdfast.services.spark.core.received_files import Arrived, FilesMissing, ReceivedFiles
from holdfast.services.spark.core.sent_files import Draft, Mark, SentFiles

if TYPE_CHECKING:
    from tests.simulation.processes.services import Process

PIECE_BYTES = 24
KEPT = 4
"""Batches that a checkpoint keeps, the newest."""
_ends = msgspec.json.Decoder(Positions)

Of = tuple[int, int, int]
"""Epoch, k and attempt of a commit."""


@dataclass(slots=True)
class Notes:
    """Notes of a query: where the input of each batch stops, which batches are done, and the state by its version."""

    stops: dict[int, Positions] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    states: dict[int, bytes] = field(default_factory=dict)

    def process(self, batch: int) -> None:
        """Makes the state after a batch."""
        self.states[batch + 1] = sha256(self.states.get(batch, b"") + msgspec.json.encode(self.stops[batch])).digest()

    def as_files(self) -> dict[str, bytes]:
        newest = max(self.stops, default=0)
        offsets = {f"offsets/{n}": msgspec.json.encode(at) for n, at in self.stops.items() if n > newest - KEPT}
        commits = {f"commits/{n}": b"" for n in self.done if n > newest - KEPT}
        states = {f"state/0/0/{n}.changelog": one for n, one in self.states.items() if n > newest - KEPT}
        return offsets | commits | states


def of_files(files: dict[str, bytes]) -> Notes:
    notes = Notes()
    for path, content in files.items():
        folder, _, name = path.rpartition("/")
        match folder:
            case "offsets":
                notes.stops[int(name)] = _ends.decode(content)
            case "commits":
                notes.done.add(int(name))
            case _:
                notes.states[int(name.partition(".")[0])] = content
    if notes.stops:  # what was done before was deleted
        notes.done |= set(range(min(notes.stops)))
    return notes


class NotesInKafka:
    """Sends and receives the notes of one query on one driver.

    true: by commit, the files that its driver had when it proposed the commit.
    wrong: what a takeover found that is not so.
    """

    def __init__(
        self, process: Process, partition: Partition, random: Random, true: dict[Of, dict[str, bytes]], wrong: list[str]
    ) -> None:
        self._process, self._partition, self._random = process, partition, random
        self._true, self._wrong = true, wrong
        self._appender = process.link.appender("query-files")
        self._files: SentFiles | None = None
        self._epoch = 0
        self.notes = Notes()

    def prepare(self, epoch: int, last: Commit | None) -> bool:
        """Takes over the notes of the last valid commit. False if Kafka does not answer, or they are not there."""
        if self._epoch == epoch:
            return True
        if not self._process.link.answered:
            return False
        try:
            received, contents = self._received()
        except Retriable:
            return False
        files = SentFiles(epoch, "/root", self._name())
        found: dict[str, bytes] = {}
        if last is not None:
            try:
                stored = received.as_of(last.epoch, last.k, last.attempt)
            except FilesMissing as missing:
                self._wrong.append(f"query files: {missing}")
                return False
            found = {path: contents[one.id] for path, one in stored.items()}
            self._check(last, found)
        self.notes = of_files(found)
        files.inherit(received, last, _marks(self.notes.as_files()))
        self._epoch, self._files = epoch, files
        return True

    def save(
        self, k: int, attempt: int, last: Commit | None, *, done: Callable[[], None], lost: Callable[[], None]
    ) -> None:
        """Sends what is new; calls one of the two once Kafka has answered everything."""
        assert self._files is not None
        files, disk, sent = self._files, self.notes.as_files(), self._files
        assert not lacking(disk, k - 1), f"{lacking(disk, k - 1)} of batch {k - 1}"
        waiting = _Waiting(done, lost)
        draft = files.draft(_marks(disk))
        for key in files.forgettable(last):
            self._append(key, None, waiting)
        for path in draft.send:
            self._send(sent, draft, path, disk[path], waiting)
        key, note = files.note(draft, k, attempt)
        self._append(key, encode(note), waiting)
        self._true[self._epoch, k, attempt] = disk
        waiting.then(lambda: files.forget(last), lambda: files.lose(draft))

    def complete(self, batch: int) -> None:
        """Sends the note that a batch is done, if nothing goes wrong at once."""
        files, path = self._files, f"commits/{batch}"
        if files is None or self._random.random() < 0.5:
            return
        draft, waiting = Draft((path,)), _Waiting(lambda: None, lambda: None)
        self._send(files, draft, path, b"", waiting)
        files.take(draft)
        waiting.then(lambda: None, lambda: files.lose(draft))

    def poll(self) -> None:
        self._appender.poll()

    def _check(self, last: Commit, found: dict[str, bytes]) -> None:
        true = self._true[last.epoch, last.k, last.attempt]
        extra = f"commits/{last.k - 1}"
        if {path: one for path, one in found.items() if path != extra} != {p: o for p, o in true.items() if p != extra}:
            self._wrong.append(f"query files: {sorted(found)} as of {last.k}, where {sorted(true)} was committed")

    def _received(self) -> tuple[ReceivedFiles, dict[object, bytes]]:
        broker, received = self._process.link.broker, ReceivedFiles()
        if self._random.random() < 0.5:
            now_ms = self._process.timeline.time_ms
            broker.compact(self._partition, now_ms - 200, now_ms - 400)
        contents: dict[object, dict[int, bytes]] = {}
        for message in broker.scan(self._partition):
            value = message.value()
            try:
                found = received.read(message.key() or b"", None if value is None else decode(value))
            except (ValueError, msgspec.DecodeError):  # a record that came again without its key
                continue
            if isinstance(found, Arrived):
                contents.setdefault(found.id, {})[found.at] = found.content
        return received, {id: b"".join(one[at] for at in sorted(one)) for id, one in contents.items()}

    def _name(self) -> str:
        return f"{sum_of(self._process.own.encode()):x}-{self._random.getrandbits(48):x}"

    def _send(self, files: SentFiles, draft: Draft, path: str, content: bytes, waiting: _Waiting) -> None:
        pieces, sum = [content[at : at + PIECE_BYTES] for at in range(0, len(content), PIECE_BYTES)] or [b""], 0
        id = files.begin(draft, len(pieces))
        for index, piece in enumerate(pieces):
            sum = sum_with(sum, index, sum_of(piece))
            self._append(piece_key(id, index), encode(Piece(path, len(pieces), sum_of(piece), piece)), waiting)
        files.add(draft, path, Stored(id, len(pieces), sum), _mark(content))

    def _append(self, key: bytes, value: bytes | None, waiting: _Waiting) -> None:
        waiting.count += 1
        self._appender.append(self._partition, value, key=key, done=waiting.answered)


@dataclass(slots=True)
class _Waiting:
    """Answers that are not here yet."""

    done: Callable[[], None]
    lost: Callable[[], None]
    count: int = 1
    failed: bool = False
    _ends: tuple[Callable[[], None], Callable[[], None]] = (lambda: None, lambda: None)

    def then(self, done: Callable[[], None], lost: Callable[[], None]) -> None:
        """Everything is on its way."""
        self._ends = done, lost
        self.answered(None, -1)

    def answered(self, error: Exception | None, offset: int) -> None:
        self.failed |= error is not None
        self.count -= 1
        if not self.count:
            self._ends[self.failed]()
            (self.lost if self.failed else self.done)()


def _mark(content: bytes) -> Mark:
    return Mark(len(content), 0, sum_of(content))


def _marks(files: dict[str, bytes]) -> dict[str, Mark]:
    return {path: _mark(content) for path, content in files.items()}
