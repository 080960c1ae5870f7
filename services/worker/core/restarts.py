"""The position in the cut log at which a restart continues: just before the first cut behind a marker's batch.

Source: PROTOCOL 3 and 6. A position behind later cuts would lose the records between: a restart would continue behind
them.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas.cuts import CutsSnapshot


class Restarts:
    """Snapshots of the cut log, for batches that no marker covers yet."""

    def __init__(self) -> None:
        self._known: dict[int, CutsSnapshot] = {}

    def cut(self, batch: int, before: Callable[[], CutsSnapshot]) -> None:
        """Notes a cut of a batch that the unit has not done. `before` returns the cut log without this cut."""
        if batch - 1 not in self._known:
            self._known[batch - 1] = before()

    def as_of(self, batch: int, newest: CutsSnapshot) -> CutsSnapshot:
        """The snapshot for a marker of this batch; `newest`, the present cut log, if no later cut is known. Repeatable,
        because the marker's run may be refused."""
        self.forget(batch)
        return self._known.get(batch, newest)

    def forget(self, batch: int) -> None:
        """Drops snapshots of earlier batches, for which no marker will be written."""
        self._known = {number: known for number, known in self._known.items() if number >= batch}
