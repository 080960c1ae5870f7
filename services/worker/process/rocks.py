"""A unit's image on disk, in RocksDB. It is rebuilt from the checkpoint log, so it needs no log or flush of its own.

Source: PROTOCOL 6.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rocksdict import Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from schemas.checkpoints import Entry
from services.kernel.errors import WorkerUnfit

WRITE_BUFFER_BYTES = 16 * 1024 * 1024


class RocksImage:
    """Implements Image. Every method may raise WorkerUnfit: the disk is full or broken."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._on_disk():
            self._open()

    def _open(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(WRITE_BUFFER_BYTES)
        options.set_max_background_jobs(1)
        options.set_keep_log_file_num(1)
        self._db = Rdict(str(self._path), options)
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign, assignment]
        self._empty = True

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._on_disk():
            values: list[bytes | None] = self._db[list(keys)] if keys else []  # type: ignore[assignment]
        return values

    def apply(self, entries: Sequence[Entry]) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in entries:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
                self._empty = False
        with self._on_disk():
            self._db.write(batch, self._unlogged)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        for key, value in self._items(prefix):
            if not key.startswith(prefix):
                return
            yield key, value

    def slice(self, start: bytes, max_bytes: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        taken: list[tuple[bytes, bytes]] = []
        size = 0
        for key, value in self._items(start):
            if size >= max_bytes:
                return taken, key
            taken.append((key, value))
            size += len(key) + len(value)
        return taken, None

    def _items(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._db.items(from_key=start, read_opt=ReadOptions())  # type: ignore[return-value]

    def empty(self) -> bool:
        return self._empty

    def close(self) -> None:
        with self._on_disk():
            self._db.close()
        shutil.rmtree(self._path, ignore_errors=True)

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """RocksDB raises plain exceptions; a flush that failed is raised at the next write."""
        try:
            yield
        except Exception as error:
            raise WorkerUnfit(
                f"the state directory cannot be used: {error}. This worker stops; nothing is lost, its units are "
                f"rebuilt from the checkpoint log. Make room there, or set HOLDFAST_STATE_DIR to another disk"
            ) from error
