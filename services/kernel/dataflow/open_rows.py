"""Rows of one query that were published tentatively and are not closed yet, by their ids, and what closes them.

Each id of such a query comes once in the final result, or not at all: its rows are final results of windows. A final
row of the id closes the tentative one. If none comes, a record without a value does: that is due once the watermark of
the stable batches has reached the watermark at which the tentative row was made, since every window that had ended by
then has been put out.

Rows are closed by id and not by batch: without the units that are out the watermark is ahead, so the final row of a
window may come in a later batch than the tentative one. Source: MECHANISMS P14, decision 0170.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from holdfast.schemas.cuts import END_WATERMARK

Id = bytes
NEVER = END_WATERMARK + 1
MAX_OPEN = 100_000
"""Beyond so many ids nothing more is published tentatively until some are closed."""


@dataclass(slots=True)
class OpenRows:
    """The open rows of one query and unit.

    soonest: the lowest watermark at which one of them is closed; NEVER: none is open.
    published: rows so far.
    replaced: ids that a final row has closed.
    withdrawn: ids that a record without a value has closed.
    fidelity: of the newest rows.
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
        """Tentative rows. watermark: of their batch."""
        found, self.fidelity = list(ids), fidelity
        self.published += len(found)
        self._open.update(dict.fromkeys(found, watermark))
        self._look()

    def confirm(self, ids: Iterable[Id]) -> None:
        """Final rows."""
        self.replaced += self._close(ids)

    def withdraw(self, ids: Iterable[Id]) -> None:
        """Records without a value."""
        self.withdrawn += self._close(ids)

    def due(self, watermark: int) -> list[Id]:
        """The ids that the final result turns out not to have, in order; they are closed. watermark: of stable batches
        whose final rows are confirmed.
        """
        if watermark < self.soonest:
            return []
        passed = sorted(id for id, until in self._open.items() if until <= watermark)
        self.withdraw(passed)
        return passed

    def _close(self, ids: Iterable[Id]) -> int:
        """Returns how many of them were open."""
        before = len(self._open)
        if self._open:
            for id in ids:
                self._open.pop(id, None)
            self._look()
        return before - len(self._open)

    def _look(self) -> None:
        self.soonest = min(self._open.values(), default=NEVER)
