"""A task's tables in another process: values are read once and kept, and writes return with the outcome.

No other code writes these tables while the process lives, so known values stay valid from batch to batch. If a key of
the batch is unknown, all unknown keys of the batch are requested together. So a table by the operator's key costs at
most one request a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import polars as pl

from holdfast.services.kernel.codecs import keys
from holdfast.services.kernel.state.table import Value
from holdfast.services.worker.isolated.messages import Found, Get, More, Page, Put, Scan

MOST_KNOWN_BYTES = 64 * 1024 * 1024
"""Limit of the keys and values kept from batch to batch; beyond it all of them are dropped."""
ENTRY_BYTES = 100
"""Memory of an entry in Python beside its content."""

Ask = Callable[[Get | Scan | More], Found | Page]


class KeysOfBatch:
    """The distinct keys of a batch, encoded at first use."""

    def __init__(self, rows: pl.DataFrame, columns: Sequence[str]) -> None:
        self._rows = rows
        self._columns = list(columns)

    @cached_property
    def encoded(self) -> dict[bytes, None]:
        """The keys in the order of the rows; empty if the operator has no key."""
        if not self._columns or not self._rows.height:
            return {}
        distinct = self._rows.select(self._columns).unique(maintain_order=True)
        return dict.fromkeys(keys.encode(distinct, self._columns))


class KnownTable:
    """A table; implements Table of services/kernel/state/table.py. Values are bytes: user_state.py encodes them."""

    def __init__(self, number: int, tables: KnownTables) -> None:
        self._number = number
        self._tables = tables
        self._known: dict[bytes, bytes | None] = {}
        self._complete = False

    def get_many(self, keys: Sequence[bytes]) -> list[Value | None]:
        known = self._known
        if not self._complete and (missing := {key: None for key in keys if key not in known}):
            self._ask(missing)
        return [known.get(key) for key in keys]

    def put_many(self, keys: Sequence[bytes], values: Sequence[Value]) -> None:
        self._tables.writes.append(Put(self._number, list(keys), list(values)))
        self._learn(zip(keys, values, strict=True))

    def delete_many(self, keys: Sequence[bytes]) -> None:
        self._tables.writes.append(Put(self._number, list(keys), None))
        self._learn((key, None) for key in keys)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, Value]]:
        if not self._complete:
            self._read(prefix)
            self._complete = not prefix
        found = [(key, value) for key, value in self._known.items() if value is not None and key.startswith(prefix)]
        return iter(sorted(found))

    def forget(self) -> None:
        self._known = {}
        self._complete = False

    def _ask(self, missing: dict[bytes, None]) -> None:
        batch = self._tables.keys.encoded
        if any(key in batch for key in missing):
            missing |= {key: None for key in batch if key not in self._known}
        asked = list(missing)
        answer = self._tables.ask(Get(self._tables.newly_opened(), self._number, asked))
        assert isinstance(answer, Found)
        self._learn(zip(asked, answer.values, strict=True))

    def _read(self, prefix: bytes) -> None:
        """Reads entries from the worker. A known entry may have been written in this batch, so it replaces the worker's
        entry."""
        answer = self._tables.ask(Scan(self._tables.newly_opened(), self._number, prefix))
        while isinstance(answer, Page):
            self._learn((key, value) for key, value in answer.entries if key not in self._known)
            if not answer.more:
                return
            answer = self._tables.ask(More())

    def _learn(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        some = dict(entries)
        self._known.update(some)
        self._tables.known_bytes += sum(len(key) + len(value or b"") + ENTRY_BYTES for key, value in some.items())


class KnownTables:
    """Tables of one task; implements Tables of services/kernel/state/table.py.

    Attributes:
        writes: writes of the batch.
        keys: keys of the batch's rows.
    """

    def __init__(self, task: str, ask: Ask) -> None:
        self.task = task
        self.ask = ask
        self.known_bytes = 0
        self._tables: dict[str, KnownTable] = {}
        self._opened: list[str] = []
        self.begin(KeysOfBatch(pl.DataFrame(), ()))

    def begin(self, keys: KeysOfBatch) -> None:
        """Begins a batch."""
        self.writes: list[Put] = []
        self.keys = keys
        if self.known_bytes > MOST_KNOWN_BYTES:
            self.known_bytes = 0
            for table in self._tables.values():
                table.forget()

    def table(self, name: str, prefix_bytes: int = 0) -> KnownTable:
        if name not in self._tables:
            self._tables[name] = KnownTable(len(self._tables), self)
            self._opened.append(name)
        return self._tables[name]

    def newly_opened(self) -> list[str]:
        """The names of tables first used since the last call. The worker numbers a unit's tables in the order of their
        first use."""
        opened, self._opened = self._opened, []
        return opened
