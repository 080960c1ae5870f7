"""The files of a query's checkpoint that its driver has sent, and the ones that it sends for the next micro-batch.

Source: PROTOCOL 12. Only files that are new or changed are sent, then a note that says which files the checkpoint has,
then the commit. Files that a note does not name any more are deleted once the commit is valid: until then a takeover
begins with the commit before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.schemas.commits import Commit
from holdfast.schemas.query_files import FileId, Note, Sent, note_key, piece_key
from holdfast.services.spark.core.query_files import SUMS, Stored
from holdfast.services.spark.core.received_files import ReceivedFiles


class Mark(NamedTuple):
    """Size, time of change and inode of a file on disk: a file that replaces it has another mark."""

    size: int
    time_ns: int
    inode: int


class _Of(NamedTuple):
    """A micro-batch as a note and a commit name it."""

    epoch: int
    k: int
    attempt: int


class _Noted(NamedTuple):
    """A note that was sent.

    needless: keys of records that nobody needs once its commit is valid.
    """

    key: bytes
    needless: tuple[bytes, ...]


@dataclass(slots=True)
class Draft:
    """Files that are sent together.

    Attributes:
        send: paths of the files to be sent.
        gone: paths of files that are no longer on disk.
        begun: number of pieces of each file of which records are on their way.
        sent: files whose records are all on their way.
        note: key of the note behind them; empty before.
    """

    send: tuple[str, ...]
    gone: tuple[str, ...] = ()
    begun: dict[FileId, int] = field(default_factory=dict)
    sent: dict[str, tuple[Stored, Mark]] = field(default_factory=dict)
    note: bytes = b""


class SentFiles:
    """The files of one epoch.

    Args:
        root: as in the note.
        writer: a name that no other writer has.
    """

    def __init__(self, epoch: int, root: str, writer: str) -> None:
        self._epoch = epoch
        self._root = root
        self._writer = writer
        self._number = 0
        self._files: dict[str, Stored] = {}
        self._marks: dict[str, Mark] = {}
        self._digest = 0
        self._needless: dict[bytes, None] = {}
        self._notes: dict[_Of, _Noted] = {}

    def inherit(self, received: ReceivedFiles, last: Commit | None, marks: Mapping[str, Mark]) -> None:
        """Continues with what was received.

        Args:
            last: the commit whose files are taken over; None: none are.
            marks: of files that are on disk as they were received; the others of the commit are sent again.

        Raises:
            FilesMissing: files of the commit are missing.
        """
        if last is not None:
            for path, one in received.as_of(last.epoch, last.k, last.attempt).items():
                self._put(path, one)
        self._marks = {path: mark for path, mark in marks.items() if path in self._files}
        self._needless = dict.fromkeys(received.keys_beside(one.id for one in self._files.values()))

    def forgettable(self, last: Commit | None) -> list[bytes]:
        """Keys of records that the last valid commit makes needless, until `forget` is called for it."""
        noted = self._notes.get(_of(last))
        if noted is None:
            return []
        return [*(key for key in noted.needless if key in self._needless), *self._earlier(_of(last)).values()]

    def forget(self, last: Commit | None) -> None:
        """Forgets the records of `forgettable`, which Kafka has deleted."""
        noted = self._notes.get(_of(last))
        if noted is None:
            return
        for key in noted.needless:
            self._needless.pop(key, None)
        for of in self._earlier(_of(last)):
            del self._notes[of]
        self._notes[_of(last)] = _Noted(noted.key, ())

    def draft(self, found: Mapping[str, Mark]) -> Draft:
        """The files to be sent, from those on disk."""
        changed = sorted(path for path, mark in found.items() if self._marks.get(path) != mark)
        return Draft(tuple(changed), tuple(path for path in self._files if path not in found))

    def begin(self, draft: Draft, pieces: int) -> FileId:
        """The id of a file that is sent next."""
        id = FileId(self._writer, self._number)
        self._number += 1
        draft.begun[id] = pieces
        return id

    def add(self, draft: Draft, path: str, stored: Stored, mark: Mark) -> None:
        """Notes that all records of a file are on their way. `mark` is from before the file was read."""
        draft.sent[path] = stored, mark

    def note(self, draft: Draft, k: int, attempt: int) -> tuple[bytes, Note]:
        """The note behind the files of a draft, with its key."""
        self.take(draft)
        note = Note(
            epoch=self._epoch,
            k=k,
            attempt=attempt,
            root=self._root,
            writer=self._writer,
            next=self._number,
            files=_ranges(one.id for one in self._files.values()),
            digest=self._digest,
        )
        draft.note = note_key(note)
        self._notes[_Of(self._epoch, k, attempt)] = _Noted(draft.note, tuple(self._needless))
        return draft.note, note

    def take(self, draft: Draft) -> None:
        """Takes the files of a draft for those of the checkpoint."""
        for path in (*draft.gone, *draft.sent):
            self._remove(path)
        for path, (stored, mark) in draft.sent.items():
            self._put(path, stored)
            self._marks[path] = mark

    def lose(self, draft: Draft) -> None:
        """Gives up a draft that Kafka may not have appended: its files are sent again. Records of it that still come
        count for nothing, because no later note names them."""
        for path, (stored, _) in draft.sent.items():
            if self._files.get(path) == stored:
                self._remove(path)
        keys = (piece_key(id, index) for id, pieces in draft.begun.items() for index in range(pieces))
        self._needless |= dict.fromkeys(keys)
        if draft.note:
            self._needless[draft.note] = None
            self._notes = {of: noted for of, noted in self._notes.items() if noted.key != draft.note}

    def _put(self, path: str, stored: Stored) -> None:
        self._files[path] = stored
        self._digest = (self._digest + stored.share(path)) % SUMS

    def _remove(self, path: str) -> None:
        self._marks.pop(path, None)
        if (former := self._files.pop(path, None)) is not None:
            self._digest = (self._digest - former.share(path)) % SUMS
            self._needless |= dict.fromkeys(piece_key(former.id, index) for index in range(former.pieces))

    def _earlier(self, of: _Of) -> dict[_Of, bytes]:
        """Keys of notes that no later commit can name. A commit behind `of` may still be on its way."""
        return {one: noted.key for one, noted in self._notes.items() if one.k <= of.k and one != of}


def _of(commit: Commit | None) -> _Of:
    return _Of(0, 0, 0) if commit is None else _Of(commit.epoch, commit.k, commit.attempt)


def _ranges(ids: Iterable[FileId]) -> tuple[Sent, ...]:
    """Ranges of numbers by writer. A micro-batch sends files of consecutive numbers, which are deleted together."""
    found: dict[str, list[list[int]]] = {}
    for writer, number in sorted(ids):
        ranges = found.setdefault(writer, [])
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return tuple(Sent(writer, tuple((first, last) for first, last in ranges)) for writer, ranges in found.items())
