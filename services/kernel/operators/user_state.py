"""State as a Python operator sees it: named tables of keys and values, whose writes count when the call succeeds.

Source: JOBS "Python operators", PROTOCOL 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from holdfast.services.kernel.plurals import with_article
from holdfast.services.kernel.state.table import Table, Tables

Scalar = None | bool | int | float | str | bytes | datetime | date | Decimal
Key = Scalar | tuple[Scalar, ...]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _plain(value: Any) -> Any:
    """Numbers of numpy and polars count as Python's."""
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
        return (part.replace(tzinfo=part.tzinfo or UTC) - _EPOCH) // _MICROSECOND
    if isinstance(part, date):
        return (part - _EPOCH.date()).days
    if isinstance(part, Decimal):
        return str(part)
    if isinstance(part, tuple | list | dict | set):
        raise TypeError(f"a key is text, a number or a tuple of such, not {part!r}")
    return part


class KeyedTable:
    """Key -> value. A key is text, a number, or a tuple of such (null too); a value is a number, text, bytes, a time
    with a zone, None, or a list or dict of such. What is read is a copy: put it back to change it; tuples come back as
    lists.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._written: dict[bytes, bytes | None] = {}

    def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key, or the default."""
        found = self._packed([encode_key(key)])[0]
        return default if found is None else _decode(found)

    def put(self, key: Key, value: Any) -> None:
        self._written[encode_key(key)] = _encode(value)

    def delete(self, key: Key) -> None:
        """Nothing happens where there is none."""
        self._written[encode_key(key)] = None

    def get_many(self, keys: Iterable[Key], default: Any = None) -> list[Any]:
        """The values in the order of keys; one call costs less than many single ones."""
        return [default if data is None else _decode(data) for data in self._packed([encode_key(key) for key in keys])]

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
        """Writes what was put and deleted."""
        put = {key: data for key, data in self._written.items() if data is not None}
        gone = [key for key, data in self._written.items() if data is None]
        if put:
            self._table.put_many(list(put), list(put.values()))
        if gone:
            self._table.delete_many(gone)
        self._written = {}

    def forget(self) -> None:
        """Forgets all puts and deletes."""
        self._written = {}

    def _packed(self, keys: Sequence[bytes]) -> list[bytes | None]:
        missing = [key for key in keys if key not in self._written]
        found = dict(zip(missing, self._table.get_many(missing), strict=True)) if missing else {}
        return [self._written[key] if key in self._written else found[key] for key in keys]


class State:
    """A task's tables by name. They survive failures: keep between batches nothing that is not in a table."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: dict[str, KeyedTable] = {}

    def table(self, name: str) -> KeyedTable:
        """The same name gives the same table."""
        if name not in self._known:
            if name.startswith("/"):
                raise ValueError(f"a table's name '{name}' begins with a slash, such names belong to holdfast")
            self._known[name] = KeyedTable(self._tables.table(name))
        return self._known[name]

    def apply(self) -> None:
        for table in self._known.values():
            table.apply()

    def forget(self) -> None:
        for table in self._known.values():
            table.forget()
