"""The newest truth of each row of a query with `results: tentative`, read from its sink's topic.

    newest = Newest()
    for message in consumer:  # read_committed, every partition from its start
        row = newest.read(message.key(), message.value(), message.headers())
        if row is not None:
            print(row.key, row.value, "final" if row.final else f"tentative, {row.fidelity:.0%}")

While units are out, rows come that were computed without them, with the header `status=tentative`. Later each is
replaced by the final row of its key, or by a record without a value and with `status=closing`: the final result has no
such row. Rows of a query without tentative results pass as they are. Memory: one entry for each key that is tentative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """The truth about a key from now on.

    value: as it stands in the topic; None: the key has no row.
    final: no later record corrects it.
    fidelity: of a tentative row, the part of the output, 0 to 1, that does not need the units that are out.
    batch: the one that made it.
    """

    key: bytes | None
    value: bytes | None
    final: bool
    fidelity: float = 1.0
    batch: int = 0


class Newest:
    """Reader of the topics of one consumer; keys of two queries in one topic are told apart by their headers."""

    def __init__(self) -> None:
        self._open: set[tuple[bytes, bytes, bytes | None]] = set()

    @property
    def open(self) -> int:
        """Keys whose newest row is tentative."""
        return len(self._open)

    def read(self, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]] | None) -> Row | None:
        """Takes one record, in the order of its partition; None if it changes nothing."""
        found = dict(headers or ())
        whose = found.get("job", b""), found.get("query", b""), key
        status, batch = found.get("status", b"final"), _number(found.get("batch", b""))
        if status == b"tentative":
            self._open.add(whose)
            return Row(key, value, False, share(found.get("fidelity", b"")), batch)
        if status == b"closing" and whose not in self._open:
            return None
        self._open.discard(whose)
        return Row(key, value, True, batch=batch)


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() else 0


def share(text: bytes) -> float:
    """The header `fidelity`; 0 for what is no number."""
    try:
        return float(text)
    except ValueError:
        return 0.0
