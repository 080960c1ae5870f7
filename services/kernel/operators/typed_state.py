"""Typed state: a value, a list or a map for each key, with an optional time to live by event time.

An entry lives for `ttl` after its newest write, as a running total does after its newest row (lifespans.py). It cannot
be read at a time `ttl` or more after that write, nor once the watermark of an earlier batch has passed its end; then it
is deleted. So the readable entries depend only on times, and not on the moment of their deletion.
Source: JOBS "Python operators".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.services.kernel.codecs.fields import dtype, members, required
from holdfast.services.kernel.errors import InvalidRecord
from holdfast.services.kernel.operators.ends import Ends
from holdfast.services.kernel.operators.moments import micros
from holdfast.services.kernel.operators.state_layout import ITEM_KEYS, Layout, decoder, python_type

if TYPE_CHECKING:
    from holdfast.services.kernel.operators.user_state import Key, KeyedTable

MAX_ITEMS = 1000
_encode = msgspec.msgpack.Encoder().encode


class Clock:
    """The times of a call: `now_us`, the default time of reads and writes, and the watermark before the batch."""

    now_us, watermark_us = NO_WATERMARK, NO_WATERMARK


class TypedState:
    """The entries of one declared state.

    recorded: True once the declaration is in the state of the task.
    """

    def __init__(self, name: str, layout: Layout, table: KeyedTable, clock: Clock) -> None:
        self._name = name
        self.layout = layout
        self._table = table
        self._clock = clock
        self._decode = decoder(layout)
        self._type = python_type(layout.type)
        self._ends: Ends | None = None
        self._written: dict[bytes, int] = {}
        self.recorded = False

    def delete(self, key: Key) -> None:
        """Deletes the entry of a key, if there is one."""
        self._table.write(key, None)

    def apply(self) -> None:
        """Applies the writes since the last call."""
        self._table.apply()
        if self._ends is not None:
            for key, end in self._written.items():
                self._ends.note(key, end)
        self._written = {}

    def forget(self) -> None:
        self._table.forget()
        self._written = {}

    def expire(self, watermark: int) -> None:
        """Deletes the entries whose end the watermark has passed."""
        if self.layout.ttl_us is None:
            return
        if self._ends is None:  # read from the state at first use
            self._ends = Ends({key: self._end(self._decode(data)) for key, data in self._table.packed_items()})
        keys, gone = self._ends.until(watermark), []
        for key, data in zip(keys, self._table.packed(keys), strict=True):
            if data is not None:
                end = self._end(self._decode(data))
                gone.append(key) if end <= watermark else self._ends.note(key, end)
        self._table.drop(gone)

    def _end(self, content: Any) -> int:
        return self.layout.newest(content) + (self.layout.ttl_us or 0)

    def _at(self, at: int | datetime | None) -> int:
        return self._clock.now_us if at is None else micros(at)

    def _lives(self, newest: int, at: int) -> bool:
        """True if an item, or a value, is still alive at a time."""
        return newest + (self.layout.ttl_us or 0) > max(at, self._clock.watermark_us)

    def _read(self, keys: Sequence[Key]) -> list[Any]:
        """The stored contents; UNSET for a key without one."""
        return [msgspec.UNSET if data is None else self._decode(data) for data in self._table.read(keys)]

    def _write(self, key: Key, content: Any) -> None:
        packed = self._table.write(key, _encode(content))
        if self.layout.ttl_us is not None:
            self._written[packed] = self._end(content)

    def _checked(self, value: Any) -> Any:
        """The value, converted if needed. Raises TypeError for a value of another type."""
        if hasattr(value, "item") and not isinstance(value, list | dict):
            value = value.item()  # a number of numpy or polars
        try:
            found = msgspec.convert(value, self._type, strict=True)
        except msgspec.ValidationError as error:
            raise TypeError(f"{self._name} is {self.layout}, and {value!r} is none: {error}") from None
        if "decimal" in self.layout.type:
            _check_digits(self.layout.type, found)
        return found


class ValueState(TypedState):
    """A value for each key."""

    def get(self, key: Key, default: Any = None, at: int | datetime | None = None) -> Any:
        """The value of a key, or the default.

        at: the time of the read; default: the newest event time of the batch.
        """
        return self.get_many([key], default, at)[0]

    def get_many(self, keys: Iterable[Key], default: Any = None, at: int | datetime | None = None) -> list[Any]:
        """The values in the order of keys; one call costs less than many single ones."""
        found = self._read(list(keys))
        if self.layout.ttl_us is None:
            return [default if content is msgspec.UNSET else content for content in found]
        time = self._at(at)
        return [default if one is msgspec.UNSET or not self._lives(one[0], time) else one[1] for one in found]

    def put(self, key: Key, value: Any, at: int | datetime | None = None) -> None:
        """Writes a value.

        at: the time of the write; the time to live counts from the newest write.
        """
        self.put_many({key: value}, at)

    def put_many(
        self, entries: Mapping[Any, Any] | Iterable[tuple[Key, Any]], at: int | datetime | None = None
    ) -> None:
        pairs = list(entries.items() if isinstance(entries, Mapping) else entries)
        if self.layout.ttl_us is None:
            for key, value in pairs:
                self._write(key, self._checked(value))
            return
        time = self._at(at)
        for (key, value), before in zip(pairs, self._read([key for key, _ in pairs]), strict=True):
            newest = time if before is msgspec.UNSET else max(time, before[0])
            self._write(key, (newest, self._checked(value)))


class ListState(TypedState):
    """A list for each key, of its newest `limit` items. Each item has its own time to live."""

    def __init__(self, name: str, layout: Layout, table: KeyedTable, clock: Clock, limit: int) -> None:
        super().__init__(name, layout, table, clock)
        self._limit = limit

    def get(self, key: Key, at: int | datetime | None = None) -> list[Any]:
        """The items of a key in order of arrival."""
        return list(self.layout.plain(self._living(key, self._at(at))))

    def append(self, key: Key, item: Any, at: int | datetime | None = None) -> None:
        self.extend(key, [item], at)

    def extend(self, key: Key, items: Iterable[Any], at: int | datetime | None = None) -> None:
        """Adds items; the oldest items of a list with more than `limit` are dropped."""
        checked = [self._checked(item) for item in items]
        timed = checked if self.layout.ttl_us is None else [(self._at(at), item) for item in checked]
        self._write(key, [*self._living(key, NO_WATERMARK), *timed][-self._limit :])

    def _living(self, key: Key, at: int) -> list[Any]:
        """The items alive at a time. A write keeps items that the watermark has not passed, because a read may be
        earlier.
        """
        content = self._read([key])[0] or []
        if self.layout.ttl_us is None:
            return list(content)
        return [item for item in content if self._lives(item[0], at)]


class MapState(TypedState):
    """A map for each key, of at most `limit` items. It is read and written whole; each item has its own time to
    live.
    """

    def __init__(self, name: str, layout: Layout, table: KeyedTable, clock: Clock, limit: int) -> None:
        super().__init__(name, layout, table, clock)
        self._limit = limit
        self._item_key = ITEM_KEYS[layout.key]

    def items(self, key: Key, at: int | datetime | None = None) -> dict[Any, Any]:
        """The items of a key in the order of their keys."""
        return dict(self.layout.plain(self._living(key, self._at(at))))

    def get(self, key: Key, item: Any, default: Any = None, at: int | datetime | None = None) -> Any:
        return self.layout.plain(self._living(key, self._at(at))).get(item, default)

    def put(self, key: Key, item: Any, value: Any, at: int | datetime | None = None) -> None:
        self.put_many(key, {item: value}, at)

    def put_many(self, key: Key, items: Mapping[Any, Any], at: int | datetime | None = None) -> None:
        """Writes items. Raises ValueError if the map would have more than `limit` items."""
        content, time = self._living(key, NO_WATERMARK), self._at(at)
        for item, value in items.items():
            if type(item) is not self._item_key:
                raise TypeError(f"{self._name} is {self.layout}, and {item!r} is no {self.layout.key}")
            checked = self._checked(value)
            if self.layout.ttl_us is not None:
                before = content.get(item)
                checked = (time if before is None else max(time, before[0]), checked)
            content[item] = checked
        if len(content) > self._limit:
            raise ValueError(f"{self._name} has {len(content)} items for {key!r}, and {self._limit} are the most")
        self._write(key, dict(sorted(content.items())))

    def remove(self, key: Key, item: Any) -> None:
        """Removes an item, if there is one."""
        content = self._living(key, NO_WATERMARK)
        if content.pop(item, msgspec.UNSET) is not msgspec.UNSET:
            self._write(key, content) if content else self.delete(key)

    def _living(self, key: Key, at: int) -> dict[Any, Any]:
        content = self._read([key])[0] or {}
        if self.layout.ttl_us is None:
            return dict(content)
        return {item: one for item, one in content.items() if self._lives(one[0], at)}


def other_layout(name: str, held: Layout, asked: Layout) -> InvalidRecord:
    """The error for a state that other code declared differently: no row is at fault."""
    return InvalidRecord(f"state '{name}' holds {held}, and the code asks for {asked}: give the new one another name")


def _check_digits(text: str, value: Any) -> None:
    """Raises TypeError for a decimal with more digits than its type."""
    for kind, decimal in _decimals(text, value):
        wanted = dtype(kind)
        precision, scale = wanted.precision, wanted.scale  # type: ignore[attr-defined]
        _, digits, exponent = decimal.as_tuple()
        if not isinstance(exponent, int) or -exponent > scale or len(digits) + exponent > precision - scale:
            raise TypeError(f"{decimal} does not fit into {required(kind)}")


def _decimals(text: str, value: Any) -> Iterator[tuple[str, Decimal]]:
    name = required(text)
    if value is None:
        return
    if isinstance(value, Decimal):
        yield text, value
    elif name.startswith("list<"):
        for item in value:
            yield from _decimals(name[5:-1], item)
    elif name.startswith("struct<"):
        for field, kind in members(name).items():
            yield from _decimals(kind, value[field])
