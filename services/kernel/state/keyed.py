"""A unit's keyed state: values in memory over an image, with the keys changed since the last capture.

A table has three layers; an upper layer hides the lower ones: `fresh` (changed since the last capture), `frozen`
(captured, its marker not yet read back as valid), and the image. `values` caches the decoded values of all layers. A
capture swaps dictionaries, so its cost does not grow with the state. Settling forgets the frozen keys and can be done
in pieces.

Tables with a prefix (scanned by prefix; keys near in time share one) also have `created`: the keys of `fresh` that the
image does not hold. A key of `created` that is deleted before its capture moves to `passed`: no run needs to mention
it. But a run of another copy may add this key to the image. After such a run the state is frozen, and thawed before the
next capture of this copy: the thaw counts the keys of `passed` as deleted.
Source: PROTOCOL 6, MECHANISMS C10 (one dirty bit a group, one a window), decision 0090.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from holdfast.services.kernel.state.image import Image
from holdfast.services.kernel.state.table import Value
from holdfast.services.kernel.state.values import decode_value

MAX_CACHED_VALUES = 4_000_000
_MISSING: Any = object()


class Fork(Protocol):
    """A view of a table as of an earlier moment (services/kernel/state/forked.py).

    void: True once the state at that moment can no longer be found.
    """

    void: bool

    def keep(self, keys: Sequence[bytes], values: Sequence[Value | None]) -> None: ...


class StateTable:
    """A table; implements services/kernel/state/table.py Table.

    added: the number of keys of the table minus the number of keys that the image held when it was last counted.
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
        """Views that keep old values before this table changes them."""
        self.written: set[bytes] | None = None
        """Keys put and deleted since the last call of StateStore.written; None if the store is not watched."""

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
        """Freezes the keys changed since the last capture and returns them. The frozen view no longer changes."""
        held = self._frozen or self._frozen_passed
        assert not held, "one capture at a time: the last one's marker has not been read back"
        self._frozen = self._fresh
        self._fresh = {}
        self._frozen_passed = self._passed
        self._passed = {}
        self._created = set()
        return self._frozen

    def settle(self, count: int) -> int:
        """Forgets up to `count` keys of the frozen view, which the image now holds, and returns their number."""
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
        """Counts the keys of the frozen view as changed again, because its run is invalid."""
        self._frozen |= self._frozen_passed
        self._frozen |= self._passed
        self._frozen |= self._fresh
        self._fresh = self._frozen
        self._frozen = {}
        self._created = set()
        self._passed = {}
        self._frozen_passed = {}

    def physical(self, key: bytes) -> bytes:
        return self._number + key

    @property
    def changed(self) -> int:
        """The number of keys changed since the last capture."""
        return len(self._fresh)

    def _keep(self, keys: Sequence[bytes]) -> None:
        values = self.get_many(keys)
        for fork in self.forks:
            fork.keep(keys, values)

    def _part_from_forks(self) -> None:
        """Ends the forks: the state at the time of each fork can no longer be found."""
        for fork in self.forks:
            fork.void = True
        self.forks = []

    def forget(self) -> None:
        """Drops all cached values, because the image was changed from outside."""
        self._part_from_forks()
        self._values = {}
        self._groups = {}
        self._fresh = {}
        self._frozen = {}
        self._created = set()
        self._passed = {}
        self._frozen_passed = {}
        self._absent = set()
        self.added = 0
        if self.written is not None:
            self.written = set()
        self._complete = self._image.empty()

    def release(self) -> None:
        """Drops all values, key by key."""
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
        """Notes keys that had no value and are about to get one.

        A key of `fresh` is not new: its deletion from the image is still to be captured.
        """
        self._index(keys)
        self._created.update(key for key in keys if key not in self._fresh)
        if self._passed:
            for key in keys:
                self._passed.pop(key, None)

    def _pass(self, gone: dict[bytes, None]) -> dict[bytes, None]:
        """Returns the deleted keys that a run has to name; moves the other keys to `passed`."""
        passed = {key: None for key in gone if key in self._created}
        self._created.difference_update(passed)
        for key in passed:
            del self._fresh[key]
        self._passed |= passed
        return {key: None for key in gone if key not in passed} if passed else gone

    def _drop(self, key: bytes) -> None:
        """Drops a deleted key that the image does not hold."""
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
        """Loads the unknown keys from the image, so that each key is counted once."""
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
        """Drops all cached values that the image holds."""
        self._values = {**self._frozen_passed, **self._frozen, **self._passed, **self._fresh}
        self._absent = {key for key, value in self._values.items() if value is None}
        self._complete = False
        self._groups = {}
        if self._prefix_bytes:
            self._index(self._values)
