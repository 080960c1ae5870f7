"""The image of one copy: its unit's state as of the last valid marker that was applied, written by any copy.

Source: PROTOCOL 6. Later changes by the copy are in memory. A capture freezes these changes; when the image holds them,
they are settled, which means removed from memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.schemas.checkpoints import Entry
from holdfast.services.kernel.state.store import Capture, StateStore

SETTLED_ENTRIES = 1_000


class UnitImage:
    """The image of a unit, as of `batch`."""

    def __init__(self, store: StateStore, batch: int) -> None:
        self.store = store
        self.batch = batch
        self._frozen: int | None = None

    def apply(self, entries: Sequence[Entry]) -> None:
        """Writes entries of a valid run into the image."""
        self.store.image.apply(entries)

    def settle(self) -> Iterator[None]:
        """Removes frozen changes, which the image holds now, from memory, a piece at a time."""
        while self.store.settle_piece(SETTLED_ENTRIES):
            yield

    # -- for the runs that this copy writes ---------------------------------------------------------------------------

    def capture(self) -> Capture:
        """Freezes all changes that the image does not hold."""
        if self._frozen is not None:
            self._frozen = None
            self.store.thaw()
        return self.store.capture()

    # -- for the runs of other copies ---------------------------------------------------------------------------------

    def freeze(self, batch: int) -> None:
        """Freezes this copy's changes up to its own `batch`, until a run of another copy reaches that batch."""
        if self._frozen is None:
            self.store.capture()
            self._frozen = batch

    def settle_up_to(self, batch: int) -> Iterator[None]:
        """Settles the frozen changes if they are no newer than `batch`, which the image is about to reach."""
        if self._frozen is not None and self._frozen <= batch:
            yield from self.settle()
            self._frozen = None

    def replaced(self, keys: int) -> None:
        """Drops all changes in memory, because the image is ahead of them. The image holds `keys` keys."""
        self._frozen = None
        self.store.forget(keys)
