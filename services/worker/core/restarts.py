"""Places in the cut log at which a restart reads on: as it was just before the first cut behind a marker's batch.

Source: PROTOCOL 3 and 6. A marker with later cuts would lose the records between: a restart would continue behind them.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas.cuts import CutsSnapshot


class Restarts:
    """By batch, for those that no marker is behind yet."""

    def __init__(self) -> None:
        self._known: dict[int, CutsSnapshot] = {}

    def cut(self, batch: int, before: Callable[[], CutsSnapshot]) -> None:
        """A cut of a batch that the unit has not done. before: gives the cut log without it."""
        if batch - 1 not in self._known:
            self._known[batch - 1] = before()

    def as_of(self, batch: int, newest: CutsSnapshot) -> CutsSnapshot:
        """For a marker; newest: the cut log as it is. Asked again of the same batch if the marker's run is refused."""
        self.forget(batch)
        return self._known.get(batch, newest)

    def forget(self, batch: int) -> None:
        """No marker before this batch will be written."""
        self._known = {number: known for number, known in self._known.items() if number >= batch}
