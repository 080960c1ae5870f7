"""A savepoint as a directory: the manifest, and a file of state for each task that has some.

Source: JOBS "holdfast savepoint". A file of state is a row of pieces (schemas/savepoints.py), each behind its length in
four bytes. The directory appears under its name once it is whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import structs

from holdfast.schemas import savepoints
from holdfast.schemas.savepoints import FORMAT, Piece, Savepoint, Task
from holdfast.services.kernel.errors import USAGE, CommandFailed

MANIFEST = "manifest.json"
STATE = "state"
_LENGTH = 4


class Directory:
    """A directory that is being written. Under its name it appears at `finish`; else it is removed.

    Raises CommandFailed if something has that name already.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        if path.exists():
            raise CommandFailed(f"{path} is there already", "name a directory that does not exist", USAGE)
        try:
            (self._partial / STATE).mkdir(parents=True)
        except OSError as error:
            raise CommandFailed(f"cannot write {path}: {error.strerror}", "name another directory", USAGE) from None

    def state(self, task: str, watermark: int, pieces: Iterable[Piece]) -> Task:
        """Writes the state of a task. A task without any has no file."""
        digest, size, entries = hashlib.sha256(), 0, 0
        tables: dict[str, None] = {}
        name = f"{STATE}/{task}.pieces"
        with (self._partial / name).open("wb") as file:
            for piece in pieces:
                tables[piece.table] = None
                entries += len(piece.entries)
                data = savepoints.encode_piece(piece)
                for part in (len(data).to_bytes(_LENGTH, "big"), data):
                    file.write(part)
                    digest.update(part)
                    size += len(part)
            _sync(file.fileno())
        if not entries:
            (self._partial / name).unlink()
            return Task(watermark)
        return Task(watermark, tuple(tables), entries, name, bytes=size, sha256=digest.hexdigest())

    def finish(self, manifest: Savepoint) -> None:
        with (self._partial / MANIFEST).open("wb") as file:
            file.write(savepoints.encode(manifest))
            _sync(file.fileno())
        self._partial.rename(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            _sync(folder)
        finally:
            os.close(folder)

    def abandon(self) -> None:
        """Removes what is not finished."""
        shutil.rmtree(self._partial, ignore_errors=True)


def _sync(file: int) -> None:
    os.fsync(file)


def read_manifest(path: Path) -> Savepoint:
    """Raises CommandFailed for a directory that holds none, or one of a later format."""
    try:
        data = (path / MANIFEST).read_bytes()
    except OSError as error:
        hint = "name a directory that `holdfast savepoint` has written"
        raise CommandFailed(f"{path} holds no savepoint: {MANIFEST}: {error.strerror}", hint, USAGE) from None
    try:
        format = msgspec.json.decode(data, type=_Format).format
        if format > FORMAT:
            said = f"{path} is a savepoint of format {format}, and this release reads up to {FORMAT}"
            raise CommandFailed(said, "use the release that has written it, or a newer one", USAGE)
        return savepoints.decode(data)
    except msgspec.DecodeError as error:
        raise CommandFailed(f"{path / MANIFEST} is no manifest: {error}", "take another savepoint", USAGE) from None


class _Format(msgspec.Struct):
    format: int


def read_pieces(path: Path, tasks: Mapping[str, Task]) -> Iterator[Piece]:
    """The state of all tasks. Raises CommandFailed for a file that is not as it was written."""
    for name, task in tasks.items():
        if task.file:
            yield from _pieces(path / task.file, name, task)


def _pieces(file: Path, name: str, task: Task) -> Iterator[Piece]:
    digest, entries = hashlib.sha256(), 0
    try:
        with file.open("rb") as stream:
            while length := stream.read(_LENGTH):
                data = stream.read(int.from_bytes(length, "big"))
                digest.update(length)
                digest.update(data)
                piece = savepoints.decode_piece(data)
                entries += len(piece.entries)
                yield structs.replace(piece, task=name)
    except (OSError, msgspec.DecodeError) as error:
        raise CommandFailed(f"{file} cannot be read: {error}", "the savepoint is damaged: use another one") from None
    if digest.hexdigest() != task.sha256 or entries != task.entries:
        raise CommandFailed(f"{file} is not as it was written", "the savepoint is damaged: use another one")
