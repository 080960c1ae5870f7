"""The keyed state of an operator.

Source: PROTOCOL 6. The implementation with dirty keys and an image is services/kernel/state/keyed.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

Value = Any
"""An immutable value that msgpack can encode: a tuple of None, bool, int, float, str, bytes and such tuples."""


class Table(Protocol):
    """A map from keys to immutable values. Access is by whole lists: one call a batch, not one a record."""

    def get_many(self, keys: Sequence[bytes]) -> list[Value | None]:
        """The values in the order of keys, None for a key without a value."""
        ...

    def put_many(self, keys: Sequence[bytes], values: Sequence[Value]) -> None: ...

    def delete_many(self, keys: Sequence[bytes]) -> None: ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, Value]]:
        """All entries whose key starts with prefix, in key order."""
        ...


class Tables(Protocol):
    """The tables of one operator's task; the same name gives the same table.

    task: the name of the task.
    """

    @property
    def task(self) -> str: ...

    def table(self, name: str, prefix_bytes: int = 0) -> Table:
        """The table of this name.

        prefix_bytes: the length of the prefixes that `scan` gets (0: only whole-table scans).
        """
        ...
