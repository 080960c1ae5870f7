"""A task's tables as its code sees them in another process: what was read once is known, what is written goes back with
the outcome.

Nobody else writes these tables while the process lives, so what is known stays true from batch to batch. The first key
of a batch that is not known is asked for together with all other keys of the batch, if it is one of them: a table by
the operator's key costs one question a batch at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import polars as pl

from holdfast.services.kernel.codecs import keys
from holdfast.services.kernel.state.table import Value
from holdfast.services.worker.isolated.messages import Found, Get, More, Page, Put, Scan

MOST_KNOWN_BYTES = 64 * 1024 * 1024
"""Limit of keys and values that are kept from batch to batch; with more, the process begins again to ask."""
ENTRY_BYTES = 100
"""Memory that Python needs for an entry beside its content."""

Ask = Callable[[Get | Scan | More], Found | Page]


class KeysOfBatch:
    """The distinct keys of a batch, encoded; found when somebody first asks for them."""

    def __init__(self, rows: pl.DataFrame, columns: Sequence[str]) -> None:
        self._rows, self._columns = rows, list(columns)

    @cached_property
    def encoded(self) -> dict[bytes, None]:
        """In the order of the rows; none where the operator has no key."""
        if not self._columns or not self._rows.height:
            return {}
        distinct = self._rows.select(self._columns).unique(maintain_order=True)
        return dict.fromkeys(keys.encode(distinct, self._columns))


class KnownTable:
    """A table; implements services/kernel/state/table.py Table. Values are bytes: user_state.py encodes them."""

    def __init__(self, number: int, tables: KnownTables) -> None:
        self._number, self._tables = number, tables
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
        self._known, self._complete = {}, False

    def _ask(self, missing: dict[bytes, None]) -> None:
        batch = self._tables.keys.encoded
        if any(key in batch for key in missing):
            missing |= {key: None for key in batch if key not in self._known}
        asked = list(missing)
        answer = self._tables.ask(Get(self._tables.newly_opened(), self._number, asked))
        assert isinstance(answer, Found)
        self._learn(zip(asked, answer.values, strict=True))

    def _read(self, prefix: bytes) -> None:
        """Reads entries of the worker. A known entry may have been written in this batch, so it counts before the
        worker's.
        """
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
    """Tables of one task; implements services/kernel/state/table.py Tables. writes: of the batch; keys: of its rows."""

    def __init__(self, task: str, ask: Ask) -> None:
        self.task, self.ask = task, ask
        self.known_bytes = 0
        self._tables: dict[str, KnownTable] = {}
        self._opened: list[str] = []
        self.begin(KeysOfBatch(pl.DataFrame(), ()))

    def begin(self, keys: KeysOfBatch) -> None:
        """A batch."""
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
        """The worker numbers a unit's tables in the order of their first use, as it does for code of its own."""
        opened, self._opened = self._opened, []
        return opened
