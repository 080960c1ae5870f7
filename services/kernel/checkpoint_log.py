"""Which runs of a unit's checkpoint log count, where a restore begins, and what a copy does with a run it reads.

A run is valid iff it is complete, its prev is the last valid marker, its b is above that one's, and all its parts lie
behind that marker. Source: PROTOCOL 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from schemas.checkpoints import Anchor, CheckpointRecord, Marker, Part
from schemas.decided import Id


@dataclass(frozen=True, slots=True)
class Run:
    """A valid run. offset: of its marker."""

    marker: Marker
    offset: int
    parts: tuple[Part, ...]


class Paste(Enum):
    """What a copy at some batch does with a valid run."""

    SKIP = "skip"
    APPLY = "apply"
    REBUILD = "rebuild"


def paste_rule(marker: Marker, own_batch: int) -> Paste:
    """The one paste rule for every copy."""
    if marker.b <= own_batch:
        return Paste.SKIP
    return Paste.APPLY if marker.a <= own_batch else Paste.REBUILD


@dataclass(slots=True)
class CheckpointLog:
    """Folds one unit's checkpoint records in offset order.

    last: the last valid marker. cursor: where the next sweep slice begins. base: offset of the first record of the run
    that began the last complete sweep cycle, None before one is complete.
    """

    last: Marker | None = None
    last_id: Id | None = None
    last_b: int = 0
    cursor: bytes = b""
    base: int | None = None
    base_id: Id | None = None
    base_b: int = 0
    anchored: int = -1
    _cycle: tuple[int, Id | None, int] | None = None
    _pending: dict[Id, list[tuple[int, Part]]] = field(default_factory=dict)

    @classmethod
    def behind(cls, anchor: Anchor) -> CheckpointLog:
        """The fold as it stands at an anchor's `upto`: all that a reader of a trimmed log knows of what was before."""
        return cls(last_id=anchor.id, last_b=anchor.b, anchored=anchor.upto)

    def read(self, offset: int, record: CheckpointRecord) -> Run | None:
        """Takes the record at `offset`; a Run when it is a marker that makes one valid."""
        if isinstance(record, Part):
            self._pending.setdefault(record.run, []).append((offset, record))
            return None
        if isinstance(record, Anchor):
            self.anchored = max(self.anchored, record.upto)
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
            self._cycle = None

    def anchor(self) -> Anchor | None:
        """What may be appended before a trim to the base; None while that would free nothing."""
        if self.base is None or self.base <= self.anchored:
            return None
        return Anchor(upto=self.base, id=self.base_id, b=self.base_b)


def restore(records: Iterable[tuple[int, CheckpointRecord]]) -> tuple[CheckpointLog, Iterator[Run]]:
    """The log at its end, and the valid runs from the base on: applied to an empty image they give the state.

    records: (offset, record) from the log start to the end. What lies below the highest anchor is left out: a trim may
    be under way.
    """
    everything = list(records)
    anchors = [record for _, record in everything if isinstance(record, Anchor)]
    anchor = max(anchors, key=lambda a: a.upto, default=None)
    log = CheckpointLog() if anchor is None else CheckpointLog.behind(anchor)
    start = 0 if anchor is None else anchor.upto
    runs = [run for offset, record in everything if offset >= start if (run := log.read(offset, record)) is not None]
    firsts = log.base if log.base is not None else -1
    return log, (run for run in runs if run.offset >= firsts)
