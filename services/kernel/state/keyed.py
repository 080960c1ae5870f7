"""A unit's keyed state: values in memory over an image, with the keys changed since the last capture.

A table has three layers, the upper hiding the lower: `fresh` (changed since the last capture), `frozen`
(captured, its marker not yet read back as valid), and the image. `values` caches all of them decoded. A capture swaps
dictionaries, so its cost does not grow with the state; settling, what forgets the frozen keys, can be done in pieces.

In tables that are scanned by prefixes, which hold what is near in time, `created` are the keys of `fresh` that the
image does not hold. Deleted before they were captured, they are `passed`: no run needs to mention them. A run of
another copy may bring them into the image, though. After one the state is frozen, and thawed before the next capture of
this copy: then what has passed counts as deleted.
Source: PROTOCOL 6, MECHANISMS C10 (one dirty bit a group, one a window), decision 0090.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import msgspec

from holdfast.schemas.checkpoints import Entry
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.state.image import Image
from holdfast.services.kernel.state.table import Value

MAX_CACHED_VALUES = 4_000_000
MAX_PIECE_ENTRIES, MAX_PIECE_BYTES = 10_000, 1024 * 1024
_MISSING: Any = object()
_encode = msgspec.msgpack.Encoder().encode
_BIG = 1


def _from_ext(code: int, data: memoryview) -> int:
    assert code == _BIG, f"unknown extension {code} in a state value"
    return int.from_bytes(data, "big", signed=True)


_decode = msgspec.msgpack.Decoder(ext_hook=_from_ext).decode


def _with_big_integers(value: Any) -> Any:
    """Integers beyond 64 bits (sums of large numbers) as an extension: msgpack has no type for them."""
    if isinstance(value, tuple):
        return tuple(_with_big_integers(item) for item in value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return msgspec.msgpack.Ext(_BIG, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    return value


def _immutable(value: Any) -> Any:
    return tuple(_immutable(item) for item in value) if isinstance(value, list) else value


def encode_value(value: Value) -> bytes:
    try:
        return _encode(value)
    except OverflowError:
        return _encode(_with_big_integers(value))


def decode_value(data: bytes) -> Value:
    return _immutable(_decode(data))


def bytes_of(entries: Iterable[Entry]) -> int:
    """Bytes of keys and values."""
    return sum(len(key) + len(value or b"") for key, value in entries)


class Fork(Protocol):
    """A view of a table as of an earlier moment (services/kernel/state/forked.py). void: it no longer is one."""

    void: bool

    def keep(self, keys: Sequence[bytes], values: Sequence[Value | None]) -> None: ...


class StateTable:
    """A table; implements services/kernel/state/table.py Table.

    added: how many keys it has more than the image had when it was last read, or fewer.
    """

    def __init__(self, number: int, prefix_bytes: int, image: Image) -> None:
        self._number = number.to_bytes(2, "big")
        self._prefix_bytes = prefix_bytes
        self._image = image
        self._complete = image.empty()
        self._values: dict[bytes, Value | None] = {}
        self._absent: set[bytes] = set()
        self._groups: dict[bytes, set[bytes]] = {}
        self._fresh: dict[bytes, Value | None] = {}
        self._frozen: dict[bytes, Value | None] = {}
        self._created: set[bytes] = set()
        self._passed: dict[bytes, None] = {}
        self._frozen_passed: dict[bytes, None] = {}
        self.added = 0
        self.forks: list[Fork] = []
        """Views that keep aside what is about to change."""
        self.written: set[bytes] | None = None
        """Keys put and deleted since they were asked for last; None: nobody asks."""

    def get_many(self, keys: Sequence[bytes]) -> list[Value | None]:
        values = self._values
        if self._complete:
            return [values.get(key) for key in keys]
        found = [values.get(key, _MISSING) for key in keys]
        missing = [key for key, value in zip(keys, found, strict=True) if value is _MISSING]
        if missing:
            self._load(missing)
            return [values.get(key) for key in keys]
        return found

    def put_many(self, keys: Sequence[bytes], values: Sequence[Value]) -> None:
        if self.forks:
            self._keep(keys)
        self._look_up(keys)
        if self._prefix_bytes:
            self._create([key for key in keys if self._values.get(key) is None])
        before = len(self._values) - len(self._absent)
        self._values.update(zip(keys, values, strict=True))
        if self._absent:
            self._absent.difference_update(keys)
        self.added += len(self._values) - len(self._absent) - before
        self._fresh.update(zip(keys, values, strict=True))
        if self.written is not None:
            self.written.update(keys)
        if len(self._values) > MAX_CACHED_VALUES:
            self._evict()

    def delete_many(self, keys: Sequence[bytes]) -> None:
        if self.forks:
            self._keep(keys)
        gone = dict.fromkeys(keys)
        self._look_up(keys)
        before = len(self._values) - len(self._absent)
        self._values.update(gone)
        self._absent.update(gone)
        self.added += len(self._values) - len(self._absent) - before
        self._fresh.update(self._pass(gone) if self._created else gone)
        if self.written is not None:
            self.written.update(gone)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, Value]]:
        if not self._complete:
            self._load_prefix(prefix)
        return iter([(key, self._values[key]) for key in sorted(self._keys(prefix)) if self._values[key] is not None])

    def capture(self) -> dict[bytes, Value | None]:
        """Freezes what changed since the last capture. The frozen view no longer changes."""
        held = self._frozen or self._frozen_passed
        assert not held, "one capture at a time: the last one's marker has not been read back"
        self._frozen, self._fresh = self._fresh, {}
        self._frozen_passed, self._passed, self._created = self._passed, {}, set()
        return self._frozen

    def settle(self, count: int) -> int:
        """The frozen view is in the image now: forgets up to `count` of its keys, and says how many."""
        frozen, passed = self._frozen, self._frozen_passed
        settled = min(count, len(frozen))
        for _ in range(settled):
            key, value = frozen.popitem()
            if value is None:
                self._drop(key)
        for _ in range(min(count - settled, len(passed))):
            self._drop(passed.popitem()[0])
            settled += 1
        return settled

    def thaw(self) -> None:
        """The frozen view's run is invalid: what it held counts as changed again."""
        self._frozen |= self._frozen_passed
        self._frozen |= self._passed
        self._frozen |= self._fresh
        self._fresh, self._frozen = self._frozen, {}
        self._created, self._passed, self._frozen_passed = set(), {}, {}

    def physical(self, key: bytes) -> bytes:
        return self._number + key

    @property
    def changed(self) -> int:
        """Keys changed since the last capture."""
        return len(self._fresh)

    def _keep(self, keys: Sequence[bytes]) -> None:
        values = self.get_many(keys)
        for fork in self.forks:
            fork.keep(keys, values)

    def _part_from_forks(self) -> None:
        """Ends the forks: the state of the table at theirs is not known any more."""
        for fork in self.forks:
            fork.void = True
        self.forks = []

    def forget(self) -> None:
        """The image was changed from outside: nothing cached counts any more."""
        self._part_from_forks()
        self._values, self._groups, self._fresh, self._frozen = {}, {}, {}, {}
        self._created, self._passed, self._frozen_passed = set(), {}, {}
        self._absent, self.added = set(), 0
        if self.written is not None:
            self.written = set()
        self._complete = self._image.empty()

    def release(self) -> None:
        """Drops everything, key by key."""
        self._part_from_forks()
        for held in (self._values, self._groups, self._fresh, self._frozen, self._passed, self._frozen_passed):
            while held:
                held.popitem()
        for keys in (self._absent, self._created):
            while keys:
                keys.pop()

    def __len__(self) -> int:
        return len(self._values)

    def _keys(self, prefix: bytes) -> Iterable[bytes]:
        if self._prefix_bytes and len(prefix) == self._prefix_bytes:
            return self._groups.get(prefix, ())
        return [key for key in self._values if key.startswith(prefix)]

    def _create(self, keys: Sequence[bytes]) -> None:
        """They are about to get a value, and had none. One that is to be deleted from the image is not new to it."""
        self._index(keys)
        self._created.update(key for key in keys if key not in self._fresh)
        if self._passed:
            for key in keys:
                self._passed.pop(key, None)

    def _pass(self, gone: dict[bytes, None]) -> dict[bytes, None]:
        """Keys among the deleted ones that a run has to name; the rest has passed."""
        passed = {key: None for key in gone if key in self._created}
        self._created.difference_update(passed)
        for key in passed:
            del self._fresh[key]
        self._passed |= passed
        return {key: None for key in gone if key not in passed} if passed else gone

    def _drop(self, key: bytes) -> None:
        """Drops a key that was deleted, and that the image does not hold."""
        if key not in self._fresh and key not in self._passed and self._values.get(key) is None:
            self._values.pop(key, None)
            self._absent.discard(key)
            self._ungroup(key)

    def _index(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._groups.setdefault(key[: self._prefix_bytes], set()).add(key)

    def _ungroup(self, key: bytes) -> None:
        prefix = key[: self._prefix_bytes]
        group = self._groups.get(prefix)
        if group is not None:
            group.discard(key)
            if not group:
                del self._groups[prefix]

    def _look_up(self, keys: Sequence[bytes]) -> None:
        """Looks keys up, so that every key is counted once."""
        if not self._complete and (unknown := [key for key in keys if key not in self._values]):
            self._load(unknown)

    def _load(self, keys: Sequence[bytes]) -> None:
        encoded = self._image.get_many([self._number + key for key in keys])
        self._absent.update(key for key, data in zip(keys, encoded, strict=True) if data is None)
        self._values.update(
            (key, None if data is None else decode_value(data)) for key, data in zip(keys, encoded, strict=True)
        )
        if self._prefix_bytes:
            self._index(key for key, data in zip(keys, encoded, strict=True) if data is not None)

    def _load_prefix(self, prefix: bytes) -> None:
        width = len(self._number)
        for key, data in self._image.scan(self._number + prefix):
            if self._values.get(key[width:], _MISSING) is _MISSING:
                self._values[key[width:]] = decode_value(data)
                if self._prefix_bytes:
                    self._index((key[width:],))

    def _evict(self) -> None:
        """Keeps what the image does not hold yet."""
        self._values = {**self._frozen_passed, **self._frozen, **self._passed, **self._fresh}
        self._absent = {key for key, value in self._values.items() if value is None}
        self._complete = False
        self._groups = {}
        if self._prefix_bytes:
            self._index(self._values)


class Capture:
    """A frozen view of all tables as of one batch; hands out its entries piece by piece.

    As a collection: the keys that it holds (with a value or a tombstone), as the image has them.
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
        """The next entries: `count`, or fewer once they come to `max_bytes`; empty at the end."""
        taken: list[Entry] = []
        left = max_bytes
        for key, value in islice(self._entries, count):
            taken.append((key, value))
            left -= len(key) + len(value or b"")
            if left <= 0:
                break
        return taken

    def __len__(self) -> int:
        return sum(map(len, self._views.values()))

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, bytes)
        view = self._views.get(key[:2])
        return view is not None and key[2:] in view

    def __iter__(self) -> Iterator[bytes]:
        return (prefix + key for prefix, view in self._views.items() for key in view)


class StateStore:
    """All tables of a unit, numbered in the order in which they were first asked for.

    Args:
        keys: that the image holds.
    """

    def __init__(self, image: Image, names: Sequence[str] = (), keys: int = 0) -> None:
        self.image, self._image_keys = image, keys
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
        """From now on it is known what was written, or no longer."""
        self._watched = watched
        for table in self._tables.values():
            table.written = set() if watched else None

    def written(self) -> Iterator[tuple[str, bytes, bytes | None]]:
        """Table, key and encoded value of what was written since the last call, in the order of tables and keys."""
        for name in sorted(self._tables):
            table = self._tables[name]
            keys, table.written = sorted(table.written or ()), set() if self._watched else None
            for key, value in zip(keys, table.get_many(keys), strict=True):
                yield name, key, None if value is None else encode_value(value)

    def adopt(self, names: Sequence[str]) -> None:
        """Takes over the numbers that another copy's marker gives to tables.

        Raises:
            StateCorrupted: they are numbered otherwise here.
        """
        shared = min(len(names), len(self._names))
        if list(names[:shared]) != self._names[:shared]:
            raise StateCorrupted(f"tables are numbered {self._names} here and {list(names)} in the checkpoint log")
        self._names += names[shared:]

    def forget(self, keys: int = 0) -> None:
        """The image was changed from outside, and holds so many keys: nothing held in memory counts any more."""
        self._image_keys = keys
        for table in self._tables.values():
            table.forget()

    def release(self) -> None:
        """Drops all that is held in memory, in any thread: key by key, so that others get their turn meanwhile."""
        for table in self._tables.values():
            table.release()

    def of_task(self, task: str) -> TaskTables:
        return TaskTables(self, task)

    @property
    def changed(self) -> int:
        """Keys that the next capture will hold."""
        return sum(table.changed for table in self._tables.values())

    def capture(self) -> Capture:
        return Capture(list(self._tables.values()))

    def settle(self) -> None:
        """Notes that all captured entries are in the image now."""
        while self.settle_piece(MAX_PIECE_ENTRIES):
            pass

    def settle_piece(self, count: int) -> bool:
        """The same for up to `count` keys; False once none is left. No capture or thaw may come in between."""
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
        """Keys of all tables."""
        return self._image_keys + sum(table.added for table in self._tables.values())

    def cached(self) -> int:
        """Values held in memory."""
        return sum(len(table) for table in self._tables.values())


class TaskTables:
    """The tables of one task; implements holdfast.services.kernel.state.table.Tables."""

    def __init__(self, store: StateStore, task: str) -> None:
        self._store = store
        self.task = task

    def table(self, name: str, prefix_bytes: int = 0) -> StateTable:
        return self._store.table(f"{self.task}/{name}", prefix_bytes)
