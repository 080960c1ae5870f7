"""All tables of a unit, and captures of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from holdfast.schemas.checkpoints import Entry
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.state.image import Image
from holdfast.services.kernel.state.keyed import StateTable
from holdfast.services.kernel.state.values import encode_value

MAX_PIECE_ENTRIES, MAX_PIECE_BYTES = 10_000, 1024 * 1024


class Capture:
    """A frozen view of all tables as of one batch, which returns its entries in pieces.

    As a collection it holds the keys of the view (with a value or a tombstone), encoded as in the image.
    """

    def __init__(self, tables: Sequence[StateTable]) -> None:
        views = [(table, table.capture()) for table in tables]
        self._views = {table.physical(b""): view for table, view in views}
        self._entries = (
            (table.physical(key), None if value is None else encode_value(value))
            for table, view in views
            for key, value in view.items()
        )

    def piece(self, count: int, max_bytes: int = MAX_PIECE_BYTES) -> list[Entry]:
        """Returns the next `count` entries, or fewer when they reach `max_bytes`; empty at the end."""
        taken: list[Entry] = []
        left = max_bytes
        for key, value in islice(self._entries, count):
            taken.append((key, value))
            left -= len(key) + len(value or b"")
            if left <= 0:
                break
        return taken

    def others(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries whose keys are not in the view."""
        views = self._views
        if not any(views.values()):
            return entries
        return [entry for entry in entries if (key := entry[0])[2:] not in views.get(key[:2], ())]

    def __len__(self) -> int:
        return sum(map(len, self._views.values()))

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, bytes)
        view = self._views.get(key[:2])
        return view is not None and key[2:] in view

    def __iter__(self) -> Iterator[bytes]:
        return (prefix + key for prefix, view in self._views.items() for key in view)


class StateStore:
    """All tables of a unit, numbered in the order of their first use.

    Args:
        image: the image below the tables.
        names: the names of the tables that already have a number, in order.
        keys: the number of keys that the image holds.
    """

    def __init__(self, image: Image, names: Sequence[str] = (), keys: int = 0) -> None:
        self.image = image
        self._image_keys = keys
        self._tables: dict[str, StateTable] = {}
        self._names = list(names)
        self._watched = False

    @property
    def names(self) -> list[str]:
        return list(self._names)

    def table(self, name: str, prefix_bytes: int = 0) -> StateTable:
        if name not in self._tables:
            if name not in self._names:
                self._names.append(name)
            self._tables[name] = StateTable(self._names.index(name), prefix_bytes, self.image)
            self._tables[name].written = set() if self._watched else None
        return self._tables[name]

    def watch(self, watched: bool) -> None:
        """Starts or stops the record of written keys."""
        self._watched = watched
        for table in self._tables.values():
            table.written = set() if watched else None

    def written(self) -> Iterator[tuple[str, bytes, bytes | None]]:
        """Yields table, key and encoded value of each entry written since the last call, in the order of tables and
        keys.
        """
        for name in sorted(self._tables):
            table = self._tables[name]
            keys, table.written = sorted(table.written or ()), set() if self._watched else None
            for key, value in zip(keys, table.get_many(keys), strict=True):
                yield name, key, None if value is None else encode_value(value)

    def adopt(self, names: Sequence[str]) -> None:
        """Takes over the numbers that the marker of another copy gives to tables.

        Raises:
            StateCorrupted: the numbers differ from those of this store.
        """
        shared = min(len(names), len(self._names))
        if list(names[:shared]) != self._names[:shared]:
            raise StateCorrupted(f"tables are numbered {self._names} here and {list(names)} in the checkpoint log")
        self._names += names[shared:]

    def forget(self, keys: int = 0) -> None:
        """Drops all values in memory, because the image was changed from outside and now holds `keys` keys."""
        self._image_keys = keys
        for table in self._tables.values():
            table.forget()

    def release(self) -> None:
        """Drops all values in memory. Runs in any thread, key by key, so that other threads can run in between."""
        for table in self._tables.values():
            table.release()

    def of_task(self, task: str) -> TaskTables:
        return TaskTables(self, task)

    @property
    def changed(self) -> int:
        """The number of keys that the next capture will hold."""
        return sum(table.changed for table in self._tables.values())

    def capture(self) -> Capture:
        return Capture(list(self._tables.values()))

    def settle(self) -> None:
        """Forgets all captured entries, because the image now holds them."""
        while self.settle_piece(MAX_PIECE_ENTRIES):
            pass

    def settle_piece(self, count: int) -> bool:
        """Forgets up to `count` captured keys; False if none is left. No capture or thaw may come between pieces."""
        for table in self._tables.values():
            count -= table.settle(count)
            if count == 0:
                return True
        return False

    def thaw(self) -> None:
        for table in self._tables.values():
            table.thaw()

    @property
    def keys(self) -> int:
        """The number of keys of all tables."""
        return self._image_keys + sum(table.added for table in self._tables.values())


class TaskTables:
    """The tables of one task; implements holdfast.services.kernel.state.table.Tables."""

    def __init__(self, store: StateStore, task: str) -> None:
        self._store = store
        self.task = task

    def table(self, name: str, prefix_bytes: int = 0) -> StateTable:
        return self._store.table(f"{self.task}/{name}", prefix_bytes)
