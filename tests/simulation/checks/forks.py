"""Rule for forks: one shows the state as of its batch for as long as it lasts, whatever the state becomes meanwhile.

Source: docs/decisions/0169.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from holdfast.services.kernel.state.forked import ForkedStore, ForkedTable
from holdfast.services.kernel.state.store import StateStore

Entries = dict[str, dict[bytes, Any]]


@contextmanager
def watched() -> Iterator[list[str]]:
    """Violations by forks that end while it is open."""
    wrong, begun = list[str](), dict[int, Entries]()
    begin, end = ForkedStore.__init__, ForkedStore.end

    def begins(self: ForkedStore, base: StateStore) -> None:
        begin(self, base)
        begun[id(self)] = _shown(self)

    def ends(self: ForkedStore) -> None:
        was = begun.pop(id(self), None)
        if was is not None and not self.void and was != (now := _shown(self)):
            wrong.append(f"fork changed: {sorted(name for name, held in now.items() if held != was.get(name, {}))}")
        end(self)

    with mock.patch.object(ForkedStore, "__init__", begins), mock.patch.object(ForkedStore, "end", ends):
        yield wrong


def _shown(fork: ForkedStore) -> Entries:
    """By table, the entries that the fork shows beside those that it has written itself."""
    return {name: _without_own(table) for name, table in fork._tables.items() if table._base is not None}


def _without_own(table: ForkedTable) -> dict[bytes, Any]:
    assert table._base is not None
    found = dict(table._base.scan(b"")) | table._kept
    return {key: value for key, value in found.items() if value is not None}
