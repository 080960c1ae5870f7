"""A unit's image on disk, in RocksDB. The checkpoint log can rebuild it, so it needs no log or flush of its own.

Source: PROTOCOL 6.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rocksdict import (
    BlockBasedOptions,
    Cache,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from holdfast.schemas.checkpoints import Entry
from holdfast.services.kernel.errors import WorkerUnfit

MIB = 1024 * 1024
WRITE_BUFFER_BYTES = 16 * MIB
LOG_BYTES = 256 * 1024
"""Size at which RocksDB starts a new file of its text log."""


class RocksMemory:
    """The memory shared by all images of a process.

    Attributes:
        cache: cache of read entries and of the indexes of open files.
        buffer: memory for entries that are not on disk yet; when it is full, the oldest entries are written.
    """

    def __init__(self, cache_bytes: int = 64 * MIB, buffer_bytes: int = 64 * MIB) -> None:
        self.cache = Cache(cache_bytes)
        self.buffer_bytes = buffer_bytes
        self.buffers = WriteBufferManager(buffer_bytes, False)


class RocksImage:
    """Implements Image. Every method may raise WorkerUnfit if the disk is full or broken."""

    def __init__(self, path: Path, memory: RocksMemory | None = None) -> None:
        self._path = path
        self._memory = memory or RocksMemory()
        with self._on_disk():
            self._open()

    def _open(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(min(WRITE_BUFFER_BYTES, self._memory.buffer_bytes // 4))
        options.set_write_buffer_manager(self._memory.buffers)
        table = BlockBasedOptions()
        table.set_block_cache(self._memory.cache)
        table.set_cache_index_and_filter_blocks(True)
        options.set_block_based_table_factory(table)
        options.set_max_background_jobs(1)
        options.set_keep_log_file_num(1)
        options.set_max_log_file_size(LOG_BYTES)
        options.set_stats_dump_period_sec(0)
        options.set_stats_persist_period_sec(0)
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
        """Turns every exception into WorkerUnfit. RocksDB raises plain exceptions, and reports a failed flush at the
        next write."""
        try:
            yield
        except Exception as error:
            raise WorkerUnfit(
                f"the state directory cannot be used: {error}. This worker stops; nothing is lost, its units are "
                f"rebuilt from the checkpoint log. Make room there, or set HOLDFAST_STATE_DIR to another disk"
            ) from error
