"""Fold of a unit's checkpoint log: the valid runs, and the offset at which a restore begins.

A run is valid iff it is complete, its line is the log's, its prev is the last valid marker, its b is above that of this
marker, and all its parts come after this marker. An anchor is valid iff it names a base that the log has had, and no
mark that the log holds needs records below it: a copy that trimmed to any other anchor, or began there, would lose
needed records. A rollback is valid iff its line is above the log's and it names a mark that the log holds. Source:
PROTOCOL 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.schemas.checkpoints import Anchor, CheckpointRecord, Marker, Part, Rollback
from holdfast.schemas.decided import Id
from holdfast.services.kernel.errors import StateCorrupted


@dataclass(frozen=True, slots=True)
class Run:
    """A valid run.

    offset: of its marker.
    """

    marker: Marker
    offset: int
    parts: tuple[Part, ...]


class Base(NamedTuple):
    """Beginning of a sweep cycle: offset of its first record, and the last valid marker and the line before it."""

    offset: int
    id: Id | None
    b: int
    line: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A place at which a restore may end: a valid marker, or the start of the log. The other fields are the fold there.

    offset: of the marker.
    """

    marker: Marker | None = None
    offset: int = -1
    base: Base | None = None
    cursor: bytes = b""
    cycle: Base | None = None

    @property
    def id(self) -> Id | None:
        return None if self.marker is None else self.marker.id

    @property
    def b(self) -> int:
        return 0 if self.marker is None else self.marker.b


START = Mark()


@dataclass(slots=True)
class CheckpointLog:
    """Folds one unit's checkpoint records in offset order.

    last: the last valid marker.
    cursor: key at which the next sweep slice begins.
    anchored: `upto` of the highest valid anchor.
    line: of the last valid rollback.
    marks: by batch, the markers that may be part of a global checkpoint, from the newest complete one on.
    acked: the marker up to which inputs may be trimmed.
    unrecorded: a rollback that this reader has done and not read yet.
    """

    last: Marker | None = None
    last_id: Id | None = None
    last_b: int = 0
    cursor: bytes = b""
    anchored: int = -1
    line: int = 0
    marks: dict[int, Mark] = field(default_factory=dict)
    acked: Marker | None = None
    unrecorded: Rollback | None = None
    _base: Base | None = None
    _bases: set[Base] = field(default_factory=set)
    _cycle: Base | None = None
    _from_start: bool = True
    _pending: dict[Id, list[tuple[int, Part]]] = field(default_factory=dict)

    @classmethod
    def behind(cls, anchor: Anchor) -> CheckpointLog:
        """Returns the fold at an anchor's `upto`: all that a reader of a trimmed log has of the records before.

        The anchor is confirmed once the fold reads it: then `anchored` is its `upto`.
        """
        return cls(last_id=anchor.id, last_b=anchor.b, line=anchor.line, _from_start=False)

    @property
    def base(self) -> int | None:
        """Offset of the first record of the last complete sweep cycle; None before a cycle is complete."""
        return None if self._base is None else self._base.offset

    @property
    def at_its_line(self) -> bool:
        """True if the log is on a line above the first one on which no marker is valid yet."""
        return self.line > (0 if self.last is None else self.last.line)

    def read(self, offset: int, record: CheckpointRecord) -> Run | None:
        """Takes the record at `offset`; returns a Run if the record is a marker that makes one valid."""
        if isinstance(record, Part):
            self._pending.setdefault(record.run, []).append((offset, record))
            return None
        if isinstance(record, Rollback):
            self._read_rollback(record)
            return None
        if isinstance(record, Anchor):
            if Base(record.upto, record.id, record.b, record.line) in self._bases and record.upto <= self._free:
                self.anchored = max(self.anchored, record.upto)
                self._bases = {base for base in self._bases if base.offset >= self.anchored}
            return None
        return self._marker(offset, record)

    def _marker(self, offset: int, marker: Marker) -> Run | None:
        parts = self._pending.pop(marker.id, [])
        complete = sorted(part.index for _, part in parts) == list(range(marker.parts))
        follows = marker.line == self.line and marker.prev == self.last_id and marker.b > self.last_b
        if not follows or not complete:
            return None
        self._sweep(marker, min([o for o, _ in parts], default=offset))
        self._from_start &= marker.a < marker.b
        self.last = marker
        self.last_id = marker.id
        self.last_b = marker.b
        self._pending = {}
        self._hold(marker, offset)
        return Run(marker, offset, tuple(part for _, part in sorted(parts, key=lambda p: p[1].index)))

    def _sweep(self, marker: Marker, first: int) -> None:
        """Follows the sweep: a cycle counts only if its slices join without a gap."""
        if marker.sweep_from == b"":
            self._cycle = Base(first, self.last_id, self.last_b, self.line)
        elif marker.sweep_from != self.cursor:
            self._cycle = None
        self.cursor = marker.sweep_to or b""
        if marker.sweep_to is None and self._cycle is not None:
            self._base = self._cycle
            self._bases.add(self._base)
            self._cycle = None

    def anchor(self) -> Anchor | None:
        """Returns the anchor that may be appended before a trim; None while a trim would free nothing."""
        base = self._needed
        return None if base is None or base.offset <= self.anchored else Anchor(*base)

    # -- global checkpoints -------------------------------------------------------------------------------------------

    def _hold(self, marker: Marker, offset: int) -> None:
        """Holds the marker's checkpoint. The held ones depend on the log alone, so all readers trim alike."""
        held = marker.held
        self.marks = {} if held is None else {b: mark for b, mark in self.marks.items() if b >= held}
        if held is None:
            self.acked = marker
        elif held in self.marks:
            self.acked = self.marks[held].marker
        if marker.aligned:
            self.marks[marker.b] = Mark(marker, offset, self._base, self.cursor, cycle=self._cycle)

    @property
    def _needed(self) -> Base | None:
        """Base from which a restore may have to begin: that of the newest marker, or of the oldest held mark."""
        held = None if self.last is None else self.last.held
        if held is None:
            return self._base
        return None if held == 0 or not self.marks else self.marks[min(self.marks)].base

    @property
    def _free(self) -> int:
        """Offset below which no record is needed; -1: none is known."""
        return -1 if self._needed is None else self._needed.offset

    def roll_back(self, line: int, at: int) -> int | None:
        """Rolls back to global checkpoint `at`; the record of this rollback is yet to be appended.

        Returns the offset of the marker with which the unit continues. None if the log does not hold that marker: the
        unit can only continue with its newest marker, on the line of the log.
        """
        mark = self._mark(at)
        if mark is None:
            return None
        self._rewind(mark, line)
        self.unrecorded = Rollback(line, mark.id, mark.b)
        return mark.offset

    def _mark(self, b: int) -> Mark | None:
        at_start = b == 0 and self._from_start and self.anchored <= 0
        return START if at_start else self.marks.get(b)

    def _read_rollback(self, record: Rollback) -> None:
        mark = self._mark(record.b)
        if record.line > self.line and mark is not None and mark.id == record.id:
            self._rewind(mark, record.line)
        elif record.line == self.line and self.unrecorded is not None:
            if record != self.unrecorded:
                raise StateCorrupted(f"line {self.line} begins at batch {record.b}, and not at {self.unrecorded.b}")
            self.unrecorded = None

    def _rewind(self, mark: Mark, line: int) -> None:
        self.last = mark.marker
        self.last_id = mark.id
        self.last_b = mark.b
        self._base = mark.base
        self.cursor = mark.cursor
        self._cycle = mark.cycle
        self.marks = {b: one for b, one in self.marks.items() if b <= mark.b}
        self._bases = {base for base in self._bases if mark.base is not None and base.offset <= mark.base.offset}
        self.line = line
        self._pending = {}
        self.unrecorded = None


def restore(
    records: Iterable[tuple[int, CheckpointRecord]], line: int = 0, at: int = 0
) -> tuple[CheckpointLog, Iterator[Run]]:
    """Returns the log at its end, and the valid runs from the base on, which give the state if applied to an empty
    image.

    Args:
        records: (offset, record) from the log start to the end. Records below the highest valid anchor are left out,
            since a trim may be under way.
        line: the line on which the unit is to be.
        at: the global checkpoint at which that line begins. A log that is not on the line yet is rolled back.

    Raises:
        StateCorrupted: the log has no beginning that fits: it was trimmed during the scan, or wrongly.
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
    upto = log.roll_back(line, at) if log.line < line else None
    firsts = log.base if log.base is not None else -1
    return log, (run for run in runs if run.offset >= firsts and (upto is None or run.offset <= upto))


def _anchors(everything: Sequence[tuple[int, CheckpointRecord]]) -> list[Anchor]:
    """Returns the anchors that may be valid, the highest first: the log holds the base that they name, before them."""
    present = {offset for offset, record in everything if not isinstance(record, Anchor)}
    found = {
        record
        for offset, record in everything
        if isinstance(record, Anchor) and record.upto < offset and record.upto in present
    }
    return sorted(found, key=lambda anchor: (anchor.upto, anchor.b), reverse=True)


def _fold(everything: Sequence[tuple[int, CheckpointRecord]], anchor: Anchor | None) -> tuple[CheckpointLog, list[Run]]:
    log = CheckpointLog() if anchor is None else CheckpointLog.behind(anchor)
    start, runs = 0 if anchor is None else anchor.upto, list[Run]()
    for at, record in everything:
        line = log.line
        if at >= start and (run := log.read(at, record)) is not None:
            runs.append(run)
        elif log.line != line:
            runs = [run for run in runs if run.marker.b <= log.last_b]
    return log, runs
