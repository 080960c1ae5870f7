"""Batches that a unit has skipped when a copy took over (precision `gap`), as a replay computes them.

They are run for the rows that had left before the takeover, and for how many records they brought. Then the state is
again what it was before them. Source: MECHANISMS A2, docs/decisions/0102.
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


class Skipping:
    """Skipping of one unit. gaps: by the batch before the first skipped one. miscounted: gaps that name another
    number.
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._gaps: dict[int, Gap] = {}
        self._open: Gap | None = None
        self._before = Before(MemoryImage(), {})
        self._came = 0
        self.miscounted: list[str] = []

    def know(self, gaps: Sequence[Gap], first: int) -> Sequence[Gap]:
        """In order; those that a replay behind this batch meets, wholly or in part."""
        left = [gap for gap in gaps if gap.upto > first]
        self._gaps = {max(gap.after, first): gap for gap in left}
        return left

    def begins(self, batch: int) -> bool:
        """True if the batches behind this one were skipped, so that `keep` is due."""
        return batch in self._gaps

    def keep(self, batch: int, image: Image, watermarks: Mapping[str, int]) -> None:
        """The state as it is, settled."""
        kept = MemoryImage()
        kept.apply(list(image.scan(b"")))
        self._open, self._before, self._came = self._gaps[batch], Before(kept, dict(watermarks)), 0

    def skips(self, batch: int, records: int) -> bool:
        """True if the rows of a batch that was run never left. records: that it brought."""
        if self._open is None:
            return False
        self._came += records
        return batch > self._open.delivered

    @property
    def skipping(self) -> bool:
        return self._open is not None

    def ends(self, batch: int) -> Before | None:
        """The state to continue with, if this batch was the last skipped one."""
        gap = self._open
        if gap is None or batch < gap.upto:
            return None
        if self._came != gap.records and gap.after in self._gaps:
            held = plural(self._came, "record")
            said = f"batches {gap.after + 1} to {gap.upto} hold {held}, and {gap.records} count as lost"
            self.miscounted.append(f"{self._unit}: {said}")
        self._open = None
        return self._before
