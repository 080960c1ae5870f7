"""Files of one sink task in its folder: first staged, then moved to their places, all files of a transaction or none.

Beside the users' files is `_holdfast/<job>.<generation>.<task>`, which belongs to the task alone:

    <token>/0, <token>/1, ...     files of a transaction that may be committed or not
    <token>/manifest.json         their places; written last, so it exists only if all files are complete
    published.json                the manifest of the last transaction whose files are in their places

Each file is moved once, and the manifest after all files. So a second process that finishes the same transaction, at
the same time or later, finds no file left to move. Source: docs/decisions/0241.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import polars as pl

from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.errors import NoFolder, Refused
from holdfast.services.kernel.plurals import digits, plural
from holdfast.services.worker.sinks.folder_names import folder_name

ASIDE = "_holdfast"
"""Folder of staged files. Readers of folders ignore names that begin with _, and files there do not end in .parquet."""

MOST_FILES = 1_000
"""Most files of one transaction and task; each is flushed to the disk before the transaction."""


class Manifest(msgspec.Struct, frozen=True):
    """The places of a transaction's files.

    Attributes:
        token: token of the transaction.
        last: its last batch.
        files: paths below the folder, in the order of their numbers.
    """

    token: str
    last: int
    files: list[str]


class ParquetFolder:
    """The folder of one sink task.

    Args:
        owner: job, generation and task, with which the name of each file begins.
        fields: type of each column, as text.
        partition_by: columns whose values name folders.
    """

    def __init__(self, folder: Path, owner: str, fields: dict[str, str], partition_by: Sequence[str]) -> None:
        self._folder = folder
        self._owner = owner
        self._schema = schema(fields)
        self._by = list(partition_by)
        self._aside = folder / ASIDE / owner

    def stage(self, token: str, first: int, last: int, frames: Sequence[pl.DataFrame]) -> int:
        """Stages the rows of the batches from `first` to `last`. Returns the bytes of the files."""
        own = self._aside / token
        own.mkdir(parents=True)
        name = f"{self._owner}.{first:012d}-{last:012d}.parquet"
        about = {"holdfast": msgspec.json.encode({"owner": self._owner, "first": first, "last": last}).decode()}
        places, size = list[str](), 0
        for within, rows in self._parts(pl.concat([one.select(self._schema.names()) for one in frames])):
            file = own / str(len(places))
            rows.write_parquet(file, compression="zstd", metadata=about)
            size += file.stat().st_size
            _flush(file)
            places.append(str(within / name))
        _write(own / "manifest.json", msgspec.json.encode(Manifest(token, last, places)))
        return size

    def publish(self, token: str) -> bool:
        """Moves the files of a committed transaction to their places. False if none are staged."""
        own = self._aside / token
        manifest = self._read(own / "manifest.json")
        if manifest is None:
            return False
        folders = dict.fromkeys((self._folder / place).parent for place in manifest.files)
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        for number, place in enumerate(manifest.files):
            with suppress(FileNotFoundError):  # the file was moved already
                os.replace(own / str(number), self._folder / place)
        for folder in folders:
            _flush(folder)
        with suppress(FileNotFoundError):
            os.replace(own / "manifest.json", self._aside / "published.json")
        _flush(self._aside)
        shutil.rmtree(own, ignore_errors=True)
        return True

    def finish(self, token: str) -> None:
        """Publishes the files that the former leader has committed, and removes all other staged files. `token` is that
        of the committed files; empty if none are open.

        Raises:
            NoFolder: the committed files are neither staged nor in their places.
        """
        if token and not self.publish(token):
            published = self._read(self._aside / "published.json")
            if published is None or published.token != token:
                raise NoFolder(
                    f"the files {token} of {self._owner} are committed and not in {self._folder}: it is not the "
                    "folder to which the leader before wrote. Mount the same one on every worker"
                )
        for own in self._aside.glob("*/"):
            shutil.rmtree(own, ignore_errors=True)

    def _parts(self, rows: pl.DataFrame) -> Iterator[tuple[Path, pl.DataFrame]]:
        """The rows of each folder below this one, in their order."""
        if not self._by:
            yield Path(), rows
            return
        parts = rows.partition_by(self._by, as_dict=True, include_key=False, maintain_order=True)
        if len(parts) > MOST_FILES:
            raise Refused(
                f"{self._folder}: {plural(len(parts), 'value')} of {', '.join(self._by)} in one transaction make as "
                f"many files, and {digits(MOST_FILES)} are the most; partition_by takes columns of fewer values"
            )
        for values, some in parts.items():
            yield Path(*map(folder_name, self._by, values)), some

    def _read(self, file: Path) -> Manifest | None:
        try:
            return msgspec.json.decode(file.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return None


def _write(file: Path, data: bytes) -> None:
    """Writes a file completely or not at all."""
    written = file.with_name(f"{file.name}.new")
    written.write_bytes(data)
    _flush(written)
    os.replace(written, file)
    _flush(file.parent)


def _flush(path: Path) -> None:
    """Flushes a file to the disk, because data committed in Kafka must survive a crash of this machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
