"""A view of a unit's state as of one batch, with writes of its own, while the state itself changes.

A line of tentative batches works on a fork. The fork copies nothing at its start. Before the state changes a key for
the first time after the fork, the fork keeps the old value; so its memory is bounded by the keys that the state or the
fork has changed. A change of the image from outside makes the fork void, because the state at the fork can no longer be
found.

A fork does not number tables: checkpoints name only the tables of the state. Source: MECHANISMS P12, decision 0169.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.services.kernel.state.keyed import StateTable
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.kernel.state.table import Value

_MISSING: Any = object()


class ForkedTable:
    """A table as of the fork; implements holdfast.services.kernel.state.table.Table.

    Args:
        base: the table of the state; None if the state had no such table at the fork.
    """

    def __init__(self, base: StateTable | None) -> None:
        self._base = base
        self._own: dict[bytes, Value | None] = {}
        self._kept: dict[bytes, Value | None] = {}
        self.void = False
        if base is not None:
            base.forks.append(self)

    def keep(self, keys: Sequence[bytes], values: Sequence[Value | None]) -> None:
        """Keeps the values of keys that the state is about to change, unless the fork already has older values."""
        for key, value in zip(keys, values, strict=True):
            self._kept.setdefault(key, value)

    def end(self) -> None:
        """Ends the fork: drops all its values and makes it void."""
        if self._base is not None and self in self._base.forks:
            self._base.forks.remove(self)
        self._own = {}
        self._kept = {}
        self.void = True

    def __len__(self) -> int:
        """The number of entries that the fork holds in memory."""
        return len(self._own) + len(self._kept)

    def get_many(self, keys: Sequence[bytes]) -> list[Value | None]:
        self._check()
        found = [self._held(key) for key in keys]
        missing = [key for key, value in zip(keys, found, strict=True) if value is _MISSING]
        if not missing:
            return found
        loaded = iter([None] * len(missing) if self._base is None else self._base.get_many(missing))
        return [next(loaded) if value is _MISSING else value for value in found]

    def put_many(self, keys: Sequence[bytes], values: Sequence[Value]) -> None:
        self._own.update(zip(keys, values, strict=True))

    def delete_many(self, keys: Sequence[bytes]) -> None:
        self._own.update(dict.fromkeys(keys))

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, Value]]:
        self._check()
        found: dict[bytes, Value | None] = {} if self._base is None else dict(self._base.scan(prefix))
        for held in (self._kept, self._own):
            found |= {key: value for key, value in held.items() if key.startswith(prefix)}
        return iter([(key, found[key]) for key in sorted(found) if found[key] is not None])

    def _held(self, key: bytes) -> Value | None:
        value = self._own.get(key, _MISSING)
        return self._kept.get(key, _MISSING) if value is _MISSING else value

    def _check(self) -> None:
        assert not self.void, "the fork is void: its state was changed from outside, or it has ended"


class ForkedStore:
    """All tables of a unit as of the moment at which this object is made."""

    def __init__(self, base: StateStore) -> None:
        self._tables = {name: ForkedTable(base.table(name)) for name in base.names}

    @property
    def void(self) -> bool:
        return any(table.void for table in self._tables.values())

    def table(self, name: str) -> ForkedTable:
        if name not in self._tables:
            self._tables[name] = ForkedTable(None)
        return self._tables[name]

    def of_task(self, task: str) -> ForkedTables:
        return ForkedTables(self, task)

    def end(self) -> None:
        for table in self._tables.values():
            table.end()

    def __len__(self) -> int:
        """The number of entries that the fork holds in memory, besides those of the state."""
        return sum(map(len, self._tables.values()))


class ForkedTables:
    """The tables of one task; implements holdfast.services.kernel.state.table.Tables."""

    def __init__(self, store: ForkedStore, task: str) -> None:
        self._store = store
        self.task = task

    def table(self, name: str, prefix_bytes: int = 0) -> ForkedTable:
        return self._store.table(f"{self.task}/{name}")
