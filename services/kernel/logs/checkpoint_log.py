"""Which runs of a unit's checkpoint log count, and where a restore begins.

A run is valid iff it is complete, its prev is the last valid marker, its b is above that one's, and all its parts lie
behind that marker. An anchor is valid iff it names a base that the log has had: a copy that trimmed to another
one, or began there, would lose what is needed. Source: PROTOCOL 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from schemas.checkpoints import Anchor, CheckpointRecord, Marker, Part
from schemas.decided import Id
from services.kernel.errors import StateCorrupted


@dataclass(frozen=True, slots=True)
class Run:
    """A valid run. offset: of its marker."""

    marker: Marker
    offset: int
    parts: tuple[Part, ...]


@dataclass(slots=True)
class CheckpointLog:
    """Folds one unit's checkpoint records in offset order.

    last: the last valid marker. cursor: where the next sweep slice begins. base: offset of the first record of the run
    that began the last complete sweep cycle, None before one is complete. anchored: the highest valid anchor.
    """

    last: Marker | None = None
    last_id: Id | None = None
    last_b: int = 0
    cursor: bytes = b""
    base: int | None = None
    base_id: Id | None = None
    base_b: int = 0
    anchored: int = -1
    _bases: dict[int, tuple[Id | None, int]] = field(default_factory=dict)
    _cycle: tuple[int, Id | None, int] | None = None
    _pending: dict[Id, list[tuple[int, Part]]] = field(default_factory=dict)

    @classmethod
    def behind(cls, anchor: Anchor) -> CheckpointLog:
        """The fold as it stands at an anchor's `upto`: all that a reader of a trimmed log knows of what was before.

        Whether that is so is known when the fold comes to the anchor itself: then `anchored` is its `upto`.
        """
        return cls(last_id=anchor.id, last_b=anchor.b)

    def read(self, offset: int, record: CheckpointRecord) -> Run | None:
        """Takes the record at `offset`; a Run when it is a marker that makes one valid."""
        if isinstance(record, Part):
            self._pending.setdefault(record.run, []).append((offset, record))
            return None
        if isinstance(record, Anchor):
            if self._bases.get(record.upto) == (record.id, record.b):
                self.anchored = max(self.anchored, record.upto)
                self._bases = {base: known for base, known in self._bases.items() if base >= self.anchored}
            return None
        return self._marker(offset, record)

    def _marker(self, offset: int, marker: Marker) -> Run | None:
        parts = self._pending.pop(marker.id, [])
        complete = sorted(part.index for _, part in parts) == list(range(marker.parts))
        if marker.prev != self.last_id or marker.b <= self.last_b or not complete:
            return None
        self._sweep(marker, min([o for o, _ in parts], default=offset))
        self.last, self.last_id, self.last_b = marker, marker.id, marker.b
        self._pending = {}
        return Run(marker, offset, tuple(part for _, part in sorted(parts, key=lambda p: p[1].index)))

    def _sweep(self, marker: Marker, first: int) -> None:
        """Follows the sweep: a cycle counts only if its slices join without a hole."""
        if marker.sweep_from == b"":
            self._cycle = (first, self.last_id, self.last_b)
        elif marker.sweep_from != self.cursor:
            self._cycle = None
        self.cursor = marker.sweep_to or b""
        if marker.sweep_to is None and self._cycle is not None:
            self.base, self.base_id, self.base_b = self._cycle
            self._bases[self.base] = self.base_id, self.base_b
            self._cycle = None

    def anchor(self) -> Anchor | None:
        """What may be appended before a trim to the base; None while that would free nothing."""
        if self.base is None or self.base <= self.anchored:
            return None
        return Anchor(upto=self.base, id=self.base_id, b=self.base_b)


def restore(records: Iterable[tuple[int, CheckpointRecord]]) -> tuple[CheckpointLog, Iterator[Run]]:
    """The log at its end, and the valid runs from the base on: applied to an empty image they give the state.

    records: (offset, record) from the log start to the end. What lies below the highest valid anchor is left out: a
    trim may be under way.

    Raises:
        StateCorrupted: the log has no beginning that fits: it was trimmed under the scan, or wrongly.
    """
    everything = list(records)
    for anchor in _anchors(everything):
        log, runs = _fold(everything, anchor)
        if log.anchored >= anchor.upto:
            break
    else:
        log, runs = _fold(everything, None)
        if not runs and any(isinstance(record, Anchor) for _, record in everything):
            raise StateCorrupted("a checkpoint log that was trimmed, and none of its anchors is valid")
    firsts = log.base if log.base is not None else -1
    return log, (run for run in runs if run.offset >= firsts)


def _anchors(everything: Sequence[tuple[int, CheckpointRecord]]) -> list[Anchor]:
    """The anchors that may be valid, the highest first: the base that they name is in the log, and before them."""
    present = {offset for offset, record in everything if not isinstance(record, Anchor)}
    found = {
        record
        for offset, record in everything
        if isinstance(record, Anchor) and record.upto < offset and record.upto in present
    }
    return sorted(found, key=lambda anchor: (anchor.upto, anchor.b), reverse=True)


def _fold(everything: Sequence[tuple[int, CheckpointRecord]], anchor: Anchor | None) -> tuple[CheckpointLog, list[Run]]:
    log = CheckpointLog() if anchor is None else CheckpointLog.behind(anchor)
    start = 0 if anchor is None else anchor.upto
    return log, [run for at, record in everything if at >= start if (run := log.read(at, record)) is not None]
