"""Keyed state as an operator sees it.

Source: PROTOCOL 6. The implementation with dirty keys and an image is services/kernel/state/keyed.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

Value = Any
"""Immutable and msgpack-able: tuples of None, bool, int, float, str, bytes and such tuples."""


class Table(Protocol):
    """key -> immutable value. Access is by whole lists: one call a batch, not one a record."""

    def get_many(self, keys: Sequence[bytes]) -> list[Value | None]:
        """Values in the order of keys, None where there is none."""
        ...

    def put_many(self, keys: Sequence[bytes], values: Sequence[Value]) -> None: ...

    def delete_many(self, keys: Sequence[bytes]) -> None: ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, Value]]:
        """All entries whose key starts with prefix, in key order."""
        ...


class Tables(Protocol):
    """Hands out an operator's tables; the same name gives the same table. task: whose they are."""

    @property
    def task(self) -> str: ...

    def table(self, name: str, prefix_bytes: int = 0) -> Table:
        """prefix_bytes: length of the prefixes that `scan` will be asked for (0: only whole-table scans)."""
        ...
