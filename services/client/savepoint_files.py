"""A savepoint as a directory: the manifest, and a file of state for each task that has some.

Source: JOBS "holdfast savepoint". A file of state is a row of pieces (schemas/savepoints.py), each behind its length in
four bytes. A directory of this machine appears under its name once it is whole; one of an object store is a savepoint
once it has its manifest, which is written last.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import IO

import msgspec
from msgspec import structs

from holdfast.schemas import savepoints
from holdfast.schemas.savepoints import FORMAT, Piece, Savepoint, Task
from holdfast.services.client.places import StorePlace
from holdfast.services.kernel.errors import FAILED, USAGE, CommandFailed

MANIFEST = "manifest.json"
STATE = "state"
_LENGTH = 4


class Directory(ABC):
    """A directory that is being written. `finish` makes it a savepoint; else what was written is removed.

    Raises CommandFailed if something has that name already, or nothing can be written there.
    """

    def __init__(self, path: Path | StorePlace) -> None:
        self.path = path
        try:
            there = path.exists()
            if not there:
                self._make()
        except OSError as error:
            raise self._failed(error, USAGE) from None
        if there:
            raise CommandFailed(f"{path} is there already", "name a directory that does not exist", USAGE)

    def state(self, task: str, watermark: int, pieces: Iterable[Piece]) -> Task:
        """Writes the state of a task. A task without any has no file."""
        digest, size, entries = hashlib.sha256(), 0, 0
        tables: dict[str, None] = {}
        name, left = f"{STATE}/{task}.pieces", iter(pieces)
        if (first := next(left, None)) is None:
            return Task(watermark)
        try:
            with self._create(name) as file:
                for piece in chain((first,), left):
                    tables[piece.table] = None
                    entries += len(piece.entries)
                    data = savepoints.encode_piece(piece)
                    for part in (len(data).to_bytes(_LENGTH, "big"), data):
                        file.write(part)
                        digest.update(part)
                        size += len(part)
        except OSError as error:
            raise self._failed(error) from None
        return Task(watermark, tuple(tables), entries, name, bytes=size, sha256=digest.hexdigest())

    def finish(self, manifest: Savepoint) -> None:
        try:
            with self._create(MANIFEST) as file:
                file.write(savepoints.encode(manifest))
            self._appear()
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError, status: int = FAILED) -> CommandFailed:
        return CommandFailed(f"cannot write {self.path}: {_why(error)}", "name another directory", status)

    @abstractmethod
    def abandon(self) -> None:
        """Removes an unfinished savepoint."""

    @abstractmethod
    def _make(self) -> None: ...

    @abstractmethod
    def _create(self, name: str) -> AbstractContextManager[IO[bytes]]: ...

    @abstractmethod
    def _appear(self) -> None: ...


class LocalDirectory(Directory):
    """A savepoint on this machine: its directory gets its name at `finish`."""

    path: Path

    def _make(self) -> None:
        self._partial = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        (self._partial / STATE).mkdir(parents=True)

    @contextmanager
    def _create(self, name: str) -> Iterator[IO[bytes]]:
        with (self._partial / name).open("wb") as file:
            yield file
            file.flush()
            _sync(file.fileno())

    def _appear(self) -> None:
        self._partial.rename(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            _sync(folder)
        finally:
            os.close(folder)

    def abandon(self) -> None:
        shutil.rmtree(self._partial, ignore_errors=True)


class StoreDirectory(Directory):
    """A savepoint in an object store, which cannot rename in one step: the manifest, written last, completes it."""

    path: StorePlace
    _finished = False

    def _make(self) -> None:
        (self.path / STATE).make()

    def _create(self, name: str) -> AbstractContextManager[IO[bytes]]:
        return (self.path / name).open("wb")

    def _appear(self) -> None:
        self._finished = True

    def abandon(self) -> None:
        if not self._finished:
            with suppress(OSError):
                self.path.remove()


def directory(path: Path | StorePlace) -> Directory:
    """Begins to write a savepoint. Raises CommandFailed."""
    return LocalDirectory(path) if isinstance(path, Path) else StoreDirectory(path)


def remove(path: Path | StorePlace) -> None:
    """Removes a savepoint; without its manifest it is none, also if this is as far as it gets. Raises OSError."""
    (path / MANIFEST).unlink()
    if isinstance(path, Path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.remove()


def _sync(file: int) -> None:
    os.fsync(file)


def _why(error: OSError) -> str:
    return error.strerror or str(error)


def read_manifest(path: Path | StorePlace) -> Savepoint:
    """The manifest of a savepoint. Raises CommandFailed for a directory without one, or with one of a later format."""
    try:
        data = (path / MANIFEST).read_bytes()
    except OSError as error:
        hint = "name a directory that `holdfast savepoint` has written"
        raise CommandFailed(f"{path} holds no savepoint: {MANIFEST}: {_why(error)}", hint, USAGE) from None
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


def read_pieces(path: Path | StorePlace, tasks: Mapping[str, Task]) -> Iterator[Piece]:
    """The state of all tasks. Raises CommandFailed for a file that is not as it was written."""
    for name, task in tasks.items():
        if task.file:
            yield from _pieces(path / task.file, name, task)


def _pieces(file: Path | StorePlace, name: str, task: Task) -> Iterator[Piece]:
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
