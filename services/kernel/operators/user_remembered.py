"""The state of a Python operator as entries for people, without the user's code: by table, key and value.

A typed state is read by the declaration stored in the state itself. Source: JOBS "holdfast state".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import polars as pl

from holdfast.services.kernel.codecs.plain_values import plain_values
from holdfast.services.kernel.operators.remembered import moments
from holdfast.services.kernel.operators.state_layout import Layout, decoder
from holdfast.services.kernel.operators.user_state import LAYOUTS, Key, KeyedTable, decode_key, encode_key
from holdfast.services.kernel.operators.user_timers import PREFIX_BYTES, entry
from holdfast.services.kernel.state.table import Tables

Keys = Sequence[Key] | None
"""The keys to look up; None: all."""


class UserEntry(NamedTuple):
    """An entry of a table; the value of a timer is its time."""

    table: str
    key: Any
    value: Any


def user_entries(tables: Tables, names: Sequence[str], keys: Keys) -> Iterator[UserEntry]:
    """Yields the entries of these tables of a task, table by table, in the order of their encoded keys."""
    declared = _layouts(tables) if LAYOUTS in names else {}
    for name in names:
        if name in PREFIX_BYTES:
            yield from _timers(tables, name, keys)
        elif name != LAYOUTS:
            yield from _entries(name, KeyedTable(tables.table(name)), declared.get(name), keys)


def _layouts(tables: Tables) -> dict[str, Layout]:
    held = KeyedTable(tables.table(LAYOUTS)).items()
    return {str(name): msgspec.convert(layout, Layout) for name, layout in held}


def _entries(name: str, table: KeyedTable, layout: Layout | None, keys: Keys) -> Iterator[UserEntry]:
    read = msgspec.msgpack.decode if layout is None else decoder(layout)
    if keys is None:
        found: Iterator[tuple[Any, bytes | None]] = ((decode_key(key), data) for key, data in table.packed_items())
    else:
        found = zip(keys, table.read(keys), strict=True)
    for key, data in found:
        if data is not None:
            yield UserEntry(name, key, read(data) if layout is None else layout.plain(read(data)))


def _timers(tables: Tables, name: str, keys: Keys) -> Iterator[UserEntry]:
    wanted = None if keys is None else {encode_key(key) for key in keys}
    width = PREFIX_BYTES[name]
    for packed, _ in tables.table(name, width).scan(b""):
        timer = entry(packed)
        if timer is not None and (wanted is None or packed[width:] in wanted):
            yield UserEntry(name, timer[1], moment(timer[0]))


def moment(time_us: int) -> Any:
    """A time as text; as microseconds if it is outside the years 1 to 9999."""
    found = plain_values(moments(pl.Series([time_us], dtype=pl.Int64)))[0]
    return time_us if found is None else found
