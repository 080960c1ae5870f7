"""State tables that are dictionaries; they refuse what a real table could not hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.services.kernel.state.table import Value
from holdfast.services.kernel.state.values import decode_value, encode_value


class DictTable:
    """Implements holdfast.services.kernel.state.table.Table. written: number of puts and deletes so far."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.written = 0

    def get_many(self, keys: Sequence[bytes]) -> list[Value | None]:
        found = [self.entries.get(key) for key in keys]
        return [None if data is None else decode_value(data) for data in found]

    def put_many(self, keys: Sequence[bytes], values: Sequence[Value]) -> None:
        self.written += len(keys)
        self.entries.update((key, encode_value(value)) for key, value in zip(keys, values, strict=True))

    def delete_many(self, keys: Sequence[bytes]) -> None:
        self.written += len(keys)
        for key in keys:
            self.entries.pop(key, None)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, Value]]:
        for key in sorted(key for key in self.entries if key.startswith(prefix)):
            yield key, decode_value(self.entries[key])


class DictTables:
    """Implements holdfast.services.kernel.state.table.Tables."""

    task = "task-0"

    def __init__(self) -> None:
        self.tables: dict[str, DictTable] = {}

    def table(self, name: str, prefix_bytes: int = 0) -> DictTable:
        return self.tables.setdefault(name, DictTable())
