"""The open rows of one query: rows published tentatively and not closed yet, by id.

Each id of a query of windows comes once in the final result, or not at all. A final row of the id closes the tentative
one. If no final row comes, a record without a value closes it. That record is due once the watermark of the stable
batches has reached the watermark at which the tentative row was made: by then every window that had ended has been
output.

A running total comes again and again, and is never taken back: the stable batch of the same number has a final row of
its id, since rows that a tentative batch lacks only add to it (docs/decisions/0244).

Rows are closed by id and not by batch. While units are out the watermark is ahead, so the final row of a window may
come in a later batch than the tentative one. Source: MECHANISMS P14, decision 0170.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from holdfast.schemas.cuts import END_WATERMARK

Id = bytes
NEVER = END_WATERMARK + 1
MAX_OPEN = 100_000
"""The largest number of open ids; beyond it no tentative row is published until some are closed."""


@dataclass(slots=True)
class OpenRows:
    """The open rows of one query and unit.

    soonest: the lowest watermark at which an open row is closed; NEVER: no row is open.
    published: the number of tentative rows so far.
    replaced: the number of ids that a final row has closed.
    withdrawn: the number of ids that a record without a value has closed.
    fidelity: the output fidelity of the newest rows, 0 to 1.
    """

    soonest: int = NEVER
    published: int = 0
    replaced: int = 0
    withdrawn: int = 0
    fidelity: float = 0.0
    _open: dict[Id, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def copy(self) -> OpenRows:
        return replace(self, _open=dict(self._open))

    def publish(self, ids: Iterable[Id], watermark: int, fidelity: float) -> None:
        """Opens tentative rows.

        watermark: the watermark of their batch.
        """
        found, self.fidelity = list(ids), fidelity
        self.published += len(found)
        self._open.update(dict.fromkeys(found, watermark))
        self._look()

    def confirm(self, ids: Iterable[Id]) -> None:
        """Closes the ids of final rows."""
        self.replaced += self._close(ids)

    def withdraw(self, ids: Iterable[Id]) -> None:
        """Closes the ids of records without a value."""
        self.withdrawn += self._close(ids)

    def due(self, watermark: int) -> list[Id]:
        """Closes and returns the ids without a final row, in order.

        watermark: the watermark of the stable batches whose final rows are confirmed.
        """
        if watermark < self.soonest:
            return []
        passed = sorted(id for id, until in self._open.items() if until <= watermark)
        self.withdraw(passed)
        return passed

    def _close(self, ids: Iterable[Id]) -> int:
        """Closes ids and returns the number that were open."""
        before = len(self._open)
        if self._open:
            for id in ids:
                self._open.pop(id, None)
            self._look()
        return before - len(self._open)

    def _look(self) -> None:
        self.soonest = min(self._open.values(), default=NEVER)
