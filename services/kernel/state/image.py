"""A unit's image: its state as of the last marker applied, as encoded keys and values. Only valid runs change it.

Source: PROTOCOL 6. The image on disk is services/worker/process/rocks.py; the one here is for `holdfast try` and tests.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Protocol

from holdfast.schemas.checkpoints import Entry


class Image(Protocol):
    """A map from encoded keys to encoded values, in key order."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...
    def apply(self, entries: Sequence[Entry]) -> None: ...
    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]: ...
    def slice(self, start: bytes, max_bytes: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Returns entries from key `start`, about max_bytes of them, and the first key of the next slice (None: the
        end).
        """
        ...

    def empty(self) -> bool: ...
    def close(self) -> None: ...


class MemoryImage:
    """An image in memory; it sorts its keys only when a reader needs their order."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._keys: list[bytes] | None = []

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._values.get(key) for key in keys]

    def apply(self, entries: Sequence[Entry]) -> None:
        for key, value in entries:
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        self._keys = None

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        keys = self._ordered()
        for position in range(bisect.bisect_left(keys, prefix), len(keys)):
            if not keys[position].startswith(prefix):
                return
            yield keys[position], self._values[keys[position]]

    def slice(self, start: bytes, max_bytes: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        keys = self._ordered()
        taken: list[tuple[bytes, bytes]] = []
        size = 0
        for position in range(bisect.bisect_left(keys, start), len(keys)):
            if size >= max_bytes:
                return taken, keys[position]
            key = keys[position]
            taken.append((key, self._values[key]))
            size += len(key) + len(self._values[key])
        return taken, None

    def empty(self) -> bool:
        return not self._values

    def close(self) -> None:
        self._values = {}

    def _ordered(self) -> list[bytes]:
        if self._keys is None:
            self._keys = sorted(self._values)
        return self._keys
