"""The fold of the files of a query's checkpoint by a driver that may take over.

Source: PROTOCOL 12. Records come in the order of the topic. A reader that begins at any time finds every file of the
last valid commit: a file is deleted only when a later commit is valid whose note does not name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from holdfast.schemas.query_files import PIECE_BYTES, FileId, Note, Piece, of_piece, piece_key
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.spark.core.query_files import SUMS, Stored, sum_of, sum_with


class FilesMissing(HoldfastError):
    """The checkpoint as of a commit is not complete in what was read; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """The content of a file from byte `at` on, to be kept."""

    id: FileId
    at: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Gone:
    """A file that is not needed any more."""

    id: FileId


@dataclass(slots=True)
class _File:
    """A file of which pieces are here. `known` has their sums by index."""

    path: str
    count: int
    known: dict[int, int] = field(default_factory=dict)

    def stored(self, id: FileId) -> Stored | None:
        """The file; None as long as pieces are missing."""
        if len(self.known) < self.count:
            return None
        sum = 0
        for index, of_one in self.known.items():
            sum = sum_with(sum, index, of_one)
        return Stored(id, self.count, sum)


class ReceivedFiles:
    """Folds the records of one topic in offset order."""

    def __init__(self) -> None:
        self._files: dict[FileId, _File] = {}
        self._notes: dict[bytes, Note] = {}

    def read(self, key: bytes, record: Piece | Note | None) -> Arrived | Gone | None:
        """Takes a record; None for the record without a value. Raises ValueError for one that does not fit."""
        if isinstance(record, Note):
            self._notes[key] = record
            return None
        found = of_piece(key)
        if record is None:
            self._notes.pop(key, None)
            return None if found is None else self._delete(*found)
        if found is None:
            raise ValueError(f"a piece has the key {key!r}")
        return self._take(found[0], found[1], record)

    def as_of(self, epoch: int, k: int, attempt: int) -> dict[str, Stored]:
        """The files of the checkpoint as of a commit, by path. Raises FilesMissing."""
        note = self.note(epoch, k, attempt)
        found = {self.path(one.id): one for one in self._noted(note)}
        if sum(one.share(path) for path, one in found.items()) % SUMS != note.digest:
            raise FilesMissing(f"files of micro-batch {k} of epoch {epoch} are not as they were sent")
        return found | self._completion(note)

    def note(self, epoch: int, k: int, attempt: int) -> Note:
        """The note of a commit. Raises FilesMissing."""
        wanted = epoch, k, attempt
        found = [one for one in self._notes.values() if (one.epoch, one.k, one.attempt) == wanted]
        if not found:
            raise FilesMissing(f"micro-batch {k} of epoch {epoch} has no note of its files")
        return found[-1]

    def keys_beside(self, files: Iterable[FileId]) -> list[bytes]:
        """Keys of all records but the pieces of these files."""
        keeps = set(files)
        others = ((id, one) for id, one in self._files.items() if id not in keeps)
        return [*(piece_key(id, index) for id, one in others for index in sorted(one.known)), *self._notes]

    def path(self, id: FileId) -> str:
        return self._files[id].path

    def _noted(self, note: Note) -> Iterator[Stored]:
        """The files that a note names."""
        for sent in note.files:
            for first, last in sent.ranges:
                for number in range(first, last + 1):
                    yield self._whole(FileId(sent.writer, number))

    def _whole(self, id: FileId) -> Stored:
        file = self._files.get(id)
        if file is None:
            raise FilesMissing(f"file {id.number} of {id.writer} is not there")
        if (stored := file.stored(id)) is None:
            raise FilesMissing(f"{file.path} has {len(file.known)} of {file.count} pieces")
        return stored

    def _completion(self, note: Note) -> dict[str, Stored]:
        """Spark's own note that the micro-batch is done, which follows the commit: with it, it need not run again."""
        path = f"commits/{note.k - 1}"
        for id, file in self._files.items():
            if file.path == path and id.writer == note.writer and id.number >= note.next:
                stored = file.stored(id)
                if stored is not None:
                    return {path: stored}
        return {}

    def _take(self, id: FileId, index: int, piece: Piece) -> Arrived:
        if piece.sum != sum_of(piece.content):
            raise ValueError(f"piece {index} of {piece.path} does not have the sum that it names")
        if not piece.path or piece.path.startswith("/") or ".." in piece.path.split("/"):
            raise ValueError(f"{piece.path!r} is no path below a checkpoint")
        file = self._files.get(id) or _File(piece.path, piece.count)
        if (piece.path, piece.count) != (file.path, file.count) or index >= file.count:
            raise ValueError(f"piece {index} of {piece.path} does not belong to {file.path}, of {file.count} pieces")
        file.known[index] = piece.sum
        self._files[id] = file
        return Arrived(id, index * PIECE_BYTES, piece.content)

    def _delete(self, id: FileId, index: int) -> Gone | None:
        file = self._files.get(id)
        if file is None:
            return None
        file.known.pop(index, None)
        if file.known:
            return None
        del self._files[id]
        return Gone(id)
