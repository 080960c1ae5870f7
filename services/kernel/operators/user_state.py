"""The state of a Python operator: named tables of keys and values, whose writes count when the call succeeds.

Source: JOBS "Python operators", PROTOCOL 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec

from holdfast.services.kernel.operators.moments import EPOCH, micros
from holdfast.services.kernel.operators.state_layout import Layout, layout_of
from holdfast.services.kernel.operators.typed_state import (
    MAX_ITEMS,
    Clock,
    ListState,
    MapState,
    TypedState,
    ValueState,
    other_layout,
)
from holdfast.services.kernel.plurals import with_article
from holdfast.services.kernel.state.table import Table, Tables

Scalar = None | bool | int | float | str | bytes | datetime | date | Decimal
Key = Scalar | tuple[Scalar, ...]
LAYOUTS = "/states"
"""The table of declarations of states with a type."""


def _plain(value: Any) -> Any:
    """Python numbers in place of numbers of numpy and polars."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"a table cannot hold {with_article(type(value).__name__)}: use numbers, text, bytes, lists, dicts")


_encode = msgspec.msgpack.Encoder(enc_hook=_plain, order="deterministic").encode
_decode = msgspec.msgpack.Decoder().decode


def encode_key(key: Key) -> bytes:
    """Encodes a key as services/kernel/codecs/keys.py does a row's key; a key that is no tuple is a tuple of one."""
    return _encode(tuple(_canonical(part) for part in key) if isinstance(key, tuple) else (_canonical(key),))


def decode_key(data: bytes) -> Any:
    """The key again; a time or date as the number, a decimal as the text that stands for it."""
    parts = tuple(_decode(data))
    return parts[0] if len(parts) == 1 else parts


def _canonical(part: Scalar) -> Any:
    if isinstance(part, float):
        return float("nan") if part != part else float(part) or 0.0
    if isinstance(part, datetime):
        return micros(part)
    if isinstance(part, date):
        return (part - EPOCH.date()).days
    if isinstance(part, Decimal):
        return str(part)
    if isinstance(part, tuple | list | dict | set):
        raise TypeError(f"a key is text, a number or a tuple of such, not {part!r}")
    return part


class KeyedTable:
    """A table from keys to values.

    A key is text, a number, or a tuple of these (null too). A value is a number, text, bytes, a time with a zone, None,
    or a list or dict of these. A read returns a copy: put it back to change the value; tuples are returned as lists.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._written: dict[bytes, bytes | None] = {}

    def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key, or the default."""
        found = self.packed([encode_key(key)])[0]
        return default if found is None else _decode(found)

    def put(self, key: Key, value: Any) -> None:
        self._written[encode_key(key)] = _encode(value)

    def delete(self, key: Key) -> None:
        """Deletes the value of a key, if there is one."""
        self._written[encode_key(key)] = None

    def get_many(self, keys: Iterable[Key], default: Any = None) -> list[Any]:
        """The values in the order of keys; one call costs less than many single ones."""
        return [default if data is None else _decode(data) for data in self.packed([encode_key(key) for key in keys])]

    def put_many(self, entries: Mapping[Any, Any] | Iterable[tuple[Key, Any]]) -> None:
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        self._written.update([(encode_key(key), _encode(value)) for key, value in pairs])

    def delete_many(self, keys: Iterable[Key]) -> None:
        self._written.update(dict.fromkeys([encode_key(key) for key in keys]))

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries in the order of their encoded keys; reads the whole table."""
        found = dict(self._table.scan(b"")) | self._written
        return iter([(decode_key(key), _decode(data)) for key, data in sorted(found.items()) if data is not None])

    def apply(self) -> None:
        """Applies the writes and deletions to the state."""
        put = {key: data for key, data in self._written.items() if data is not None}
        gone = [key for key, data in self._written.items() if data is None]
        if put:
            self._table.put_many(list(put), list(put.values()))
        if gone:
            self._table.delete_many(gone)
        self._written = {}

    def forget(self) -> None:
        """Forgets all puts and deletions of the call."""
        self._written = {}

    def read(self, keys: Iterable[Key]) -> list[bytes | None]:
        """Encoded values, for a state with a type."""
        return self.packed([encode_key(key) for key in keys])

    def write(self, key: Key, data: bytes | None) -> bytes:
        """Puts an encoded value, or deletes: the encoded key."""
        encoded = encode_key(key)
        self._written[encoded] = data
        return encoded

    def packed_items(self) -> Iterator[tuple[bytes, bytes]]:
        """All applied entries, encoded."""
        return self._table.scan(b"")

    def drop(self, keys: Sequence[bytes]) -> None:
        """Deletes at once, outside any call."""
        if keys:
            self._table.delete_many(keys)

    def packed(self, keys: Sequence[bytes]) -> list[bytes | None]:
        missing = [key for key in keys if key not in self._written]
        found = dict(zip(missing, self._table.get_many(missing), strict=True)) if missing else {}
        return [self._written[key] if key in self._written else found[key] for key in keys]


class State:
    """The tables of a task by name, and its typed states. They survive failures: keep no other data between batches."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: dict[str, KeyedTable] = {}
        self._typed: dict[str, TypedState] = {}
        self._clock = Clock()

    def table(self, name: str) -> KeyedTable:
        """The table of this name; the same name gives the same table."""
        if name not in self._known or name == LAYOUTS:
            if name in self._typed:
                raise ValueError(f"state '{name}' is {self._typed[name].layout}, and no table")
            self._known[name] = KeyedTable(self._table(name))
        return self._known[name]

    def value(self, name: str, type: str, ttl_s: float | None = None) -> ValueState:
        """A state with one value for each key. The same name gives the same state.

        Args:
            type: a field type, such as `int` or `timestamp?`.
            ttl_s: the seconds of event time that a value lives after its newest write.
        """
        layout = layout_of("value", type, ttl_s)
        found = self._declared(name, layout, lambda table: ValueState(name, layout, table, self._clock))
        assert isinstance(found, ValueState)
        return found

    def list(self, name: str, type: str, ttl_s: float | None = None, limit: int = MAX_ITEMS) -> ListState:
        """A state with a list for each key, of at most `limit` items: further items push the oldest out."""
        layout = layout_of("list", type, ttl_s)
        found = self._declared(name, layout, lambda table: ListState(name, layout, table, self._clock, limit=limit))
        assert isinstance(found, ListState)
        return found

    def map(self, name: str, key_type: str, type: str, ttl_s: float | None = None, limit: int = MAX_ITEMS) -> MapState:
        """A state with a map for each key, of at most `limit` items.

        key_type: the type of the items' keys, string or int.
        """
        layout = layout_of("map", type, ttl_s, key_type)
        found = self._declared(name, layout, lambda table: MapState(name, layout, table, self._clock, limit=limit))
        assert isinstance(found, MapState)
        return found

    def begin(self, now_us: int, watermark_us: int) -> None:
        """Begins a call.

        now_us: the time of the call.
        watermark_us: the watermark before the batch.
        """
        self._clock.now_us, self._clock.watermark_us = now_us, watermark_us

    def expire(self, watermark_us: int) -> None:
        """Deletes expired entries, after all calls of a batch."""
        for typed in self._typed.values():
            typed.expire(watermark_us)

    def apply(self) -> None:
        for name, typed in self._typed.items():
            if not typed.recorded:
                self._layouts().put(name, msgspec.to_builtins(typed.layout))
                typed.recorded = True
            typed.apply()
        for table in self._known.values():
            table.apply()

    def forget(self) -> None:
        for table in self._known.values():
            table.forget()
        for typed in self._typed.values():
            typed.forget()

    def _declared(self, name: str, layout: Layout, make: Callable[[KeyedTable], TypedState]) -> TypedState:
        """The declared state. Raises InvalidRecord if the state of the task has it in another form."""
        known = self._typed.get(name)
        if known is None:
            if name in self._known:
                raise ValueError(f"state '{name}' is a table, and not {layout}")
            held = self._layouts().get(name)
            if held is not None and not layout.fits(before := msgspec.convert(held, Layout)):
                raise other_layout(name, before, layout)
            known = self._typed[name] = make(KeyedTable(self._table(name)))
            known.recorded = held is not None and before == layout
        elif known.layout != layout:
            raise ValueError(f"state '{name}' is {known.layout}, and not {layout}")
        return known

    def _layouts(self) -> KeyedTable:
        """Declarations by name, for readers of the state: a checkpoint holds them."""
        if LAYOUTS not in self._known:
            self._known[LAYOUTS] = KeyedTable(self._tables.table(LAYOUTS))
        return self._known[LAYOUTS]

    def _table(self, name: str) -> Table:
        if name.startswith("/"):
            raise ValueError(f"a table's name '{name}' begins with a slash, such names belong to holdfast")
        return self._tables.table(name)
