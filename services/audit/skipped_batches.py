"""Batches that a unit has skipped when a copy took over (precision `gap`), as a replay computes them.

They are computed for the rows delivered before the takeover, and to count their records. Then the state before them is
restored. Source: MECHANISMS A2, docs/decisions/0102.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.schemas.cuts import Gap
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.state.image import Image, MemoryImage


class Before(NamedTuple):
    """The state of a unit before its first skipped batch."""

    image: Image
    watermarks: dict[str, int]


class SkippedBatches:
    """Skipping of one unit.

    gaps: gaps by the batch before their first skipped one.
    miscounted: gaps whose number of records differs from the number read.
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._gaps: dict[int, Gap] = {}
        self._open: Gap | None = None
        self._before = Before(MemoryImage(), {})
        self._came = 0
        self.miscounted: list[str] = []

    def know(self, gaps: Sequence[Gap], first: int) -> Sequence[Gap]:
        """Sets the gaps; returns, in order, those that a replay behind batch `first` computes wholly or in part."""
        left = [gap for gap in gaps if gap.upto > first]
        self._gaps = {max(gap.after, first): gap for gap in left}
        return left

    def begins(self, batch: int) -> bool:
        """True if the batches behind this one were skipped, so that `keep` must be called."""
        return batch in self._gaps

    def keep(self, batch: int, image: Image, watermarks: Mapping[str, int]) -> None:
        """Keeps the present state, which must be settled."""
        kept = MemoryImage()
        kept.apply(list(image.scan(b"")))
        self._open = self._gaps[batch]
        self._before = Before(kept, dict(watermarks))
        self._came = 0

    def skips(self, batch: int, records: int) -> bool:
        """True if the rows of a computed batch were never delivered.

        records: number of records in the batch.
        """
        if self._open is None:
            return False
        self._came += records
        return batch > self._open.delivered

    @property
    def skipping(self) -> bool:
        return self._open is not None

    def ends(self, batch: int) -> Before | None:
        """The state with which to continue if this batch was the last skipped one, else None."""
        gap = self._open
        if gap is None or batch < gap.upto:
            return None
        if self._came != gap.records and gap.after in self._gaps:
            held = plural(self._came, "record")
            said = f"batches {gap.after + 1} to {gap.upto} hold {held}, and {gap.records} count as lost"
            self.miscounted.append(f"{self._unit}: {said}")
        self._open = None
        return self._before
