"""The image of one copy: its unit's state as of the last valid marker that was applied, whoever wrote it.

Source: PROTOCOL 6. Above the image lies what the copy has changed since, in memory. A capture freezes the changes; once
the image holds them they are settled, which is to forget them in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.schemas.checkpoints import Entry
from holdfast.services.kernel.state.keyed import Capture, StateStore

SETTLED_ENTRIES = 1_000


class UnitImage:
    """batch: the image is as of this one."""

    def __init__(self, store: StateStore, batch: int) -> None:
        self.store, self.batch = store, batch
        self._frozen: int | None = None

    def apply(self, entries: Sequence[Entry]) -> None:
        """Takes entries of a valid run into the image."""
        self.store.image.apply(entries)

    def settle(self) -> Iterator[None]:
        """The image holds what is frozen: forgets that in memory, a piece at a time."""
        while self.store.settle_piece(SETTLED_ENTRIES):
            yield

    # -- for the runs that this copy writes ---------------------------------------------------------------------------

    def capture(self) -> Capture:
        """Freezes all that the image does not hold."""
        if self._frozen is not None:
            self._frozen = None
            self.store.thaw()
        return self.store.capture()

    # -- for the runs of other copies ---------------------------------------------------------------------------------

    def freeze(self, batch: int) -> None:
        """Freezes the changes by this copy up to its own `batch`, until a run of another copy reaches the batch."""
        if self._frozen is None:
            self.store.capture()
            self._frozen = batch

    def settle_up_to(self, batch: int) -> Iterator[None]:
        """The image is about to be as of `batch`: settles what was frozen, if that is no newer."""
        if self._frozen is not None and self._frozen <= batch:
            yield from self.settle()
            self._frozen = None

    def replaced(self, keys: int) -> None:
        """The image, which holds so many keys, is ahead of all that this copy has in memory."""
        self._frozen = None
        self.store.forget(keys)
