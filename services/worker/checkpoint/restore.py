"""Rebuilds a unit's image from its checkpoint log, beside the loop.

Source: PROTOCOL 6: scan to the end, start from an empty image, apply all valid runs from the base.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import msgspec

from holdfast.schemas.checkpoints import KEYS, CheckpointRecord, Marker, Part, decode, unpack
from holdfast.schemas.cuts import CutsSnapshot
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.checkpoint_log import CheckpointLog, Run, restore
from holdfast.services.hosting.blocking_calls import further
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.state.image import Image
from holdfast.services.log.protocol import Log


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A restored image.

    Attributes:
        log: the fold of the checkpoint log.
        image: the image.
        marker: the newest valid marker; None if there is none.
        next_offset: first unread offset of the checkpoint log.
        entries, bytes: number and size of the entries applied.
        cuts_end: end offset of the cut log.
        cpu_ms: CPU time of the restore, milliseconds.
        cuts_base: snapshot with which the cut log begins, if the copy must read the log from there.
        line: line of the unit.
        begins: first offsets of its inputs, if they may be behind the marker's positions.
    """

    log: CheckpointLog
    image: Image
    marker: Marker | None
    next_offset: int
    entries: int
    cuts_end: int = 0
    bytes: int = 0
    cpu_ms: float = 0.0
    cuts_base: CutsSnapshot | None = None
    line: int = 0
    begins: Mapping[Partition, int] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        return 0 if self.marker is None else self.marker.b

    @property
    def tables(self) -> Sequence[str]:
        """The names of its tables, by number."""
        return () if self.marker is None else self.marker.tables

    @property
    def keys(self) -> int:
        """The number of keys of the state."""
        return 0 if self.marker is None else self.marker.counts.get(KEYS, 0)


FEW_RUNS = 2
"""Number of new runs at which a restore ends: the image is then as new as it can be."""
MAX_LOOKS = 8


def rebuild(
    log: Log,
    partition: Partition,
    image: Image,
    acked: int = 0,
    skipped: Collection[int] = (),
    exists: Callable[[int], bool] = lambda batch: True,
    cuts: Partition | None = None,
    cpu_ms: Callable[[], float] = lambda: 0.0,
    cuts_base: CutsSnapshot | None = None,
    line: int = 0,
    back: int = 0,
    inputs: Collection[Partition] = (),
) -> Rebuilt:
    """Applies the valid runs to the empty image, and the runs that arrive meanwhile.

    A large image takes seconds, in which the unit continues elsewhere and its inputs are trimmed up to its newest
    marker. A copy that is seconds behind would find its positions trimmed, and would rebuild again and again.

    Args:
        acked: batch of the unit whose marker `progress` reported before this call.
        skipped: offsets of records to skip.
        exists: True for a batch that was ever cut; a forged record may acknowledge any other batch.
        cuts: cut log of a unit that reads sources.
        cuts_base: as in Rebuilt.
        cpu_ms: CPU time of the calling thread.
        line: line of the unit.
        back: global checkpoint with which that line begins.
        inputs: data topics, which may begin behind that checkpoint. Their first offsets are read before the checkpoint
            log. If that log then holds no marker of the line, the inputs were trimmed to markers of earlier lines, and
            all input that the unit needs is sent again behind these offsets.

    Raises:
        StateCorrupted: the log was trimmed or rolled back under the scan, or lacks that marker; the caller tries again.
    """
    begins = log.offsets(list(inputs), "start") if line and inputs else {}
    began_ms, reading = cpu_ms(), _Reading(log, partition, skipped)
    folded, runs = restore(reading.records(), line, back)
    if folded.last_b < acked and exists(acked):
        raise StateCorrupted(f"{partition} ends at batch {folded.last_b}, but batch {acked} was acknowledged")
    applied = _Applied(image)
    applied.add(part for run in runs for part in run.parts)
    on = folded.line
    for _ in range(MAX_LOOKS):
        newer = [run for at, record in reading.records() if (run := folded.read(at, record)) is not None]
        if folded.line != on:
            raise StateCorrupted(f"{partition} was rolled back to batch {folded.last_b} under the scan")
        applied.add(part for run in newer for part in run.parts if not part.sweep)
        if len(newer) <= FEW_RUNS:
            break
    cuts_end = 0 if cuts is None else log.offsets([cuts], "end")[cuts]
    at, took_ms = reading.next_offset, cpu_ms() - began_ms
    begins = begins if folded.at_its_line else {}
    return Rebuilt(
        folded,
        image,
        folded.last,
        at,
        entries=applied.entries,
        cuts_end=cuts_end,
        bytes=applied.bytes,
        cpu_ms=took_ms,
        cuts_base=cuts_base,
        line=line,
        begins=begins,
    )


def newer_runs(log: Log, partition: Partition, folded: CheckpointLog, start: int) -> tuple[list[Run], int]:
    """The valid runs from offset `start` on that follow the fold, and the next unread offset. Raises PositionGone if
    the log was trimmed beyond `start`."""
    reading = _Reading(log, partition, (), start)
    runs = [run for at, record in reading.records() if (run := folded.read(at, record)) is not None]
    return runs, reading.next_offset


def further_on(found: Rebuilt, log: Log, partition: Partition, cuts: Partition | None) -> Rebuilt:
    """The image with the runs that arrived since it was restored. `cuts` is as in `rebuild`."""
    runs, at = newer_runs(log, partition, found.log, found.next_offset)
    applied = _Applied(found.image)
    applied.add(part for run in runs for part in run.parts if not part.sweep)
    return replace(
        found,
        marker=found.log.last,
        next_offset=at,
        entries=found.entries + applied.entries,
        bytes=found.bytes + applied.bytes,
        cuts_end=0 if cuts is None else log.offsets([cuts], "end")[cuts],
    )


class _Reading:
    """Reads the records of a partition, each time from the end of the last read."""

    def __init__(self, log: Log, partition: Partition, skipped: Collection[int], start: int | None = None) -> None:
        self._log = log
        self._partition = partition
        self._skipped = skipped
        self._start = start

    @property
    def next_offset(self) -> int:
        return self._start or 0

    def records(self) -> Iterator[tuple[int, CheckpointRecord]]:
        for message in self._log.scan(self._partition, self._start):
            self._start = message.offset() + 1
            further()
            if message.offset() in self._skipped:
                continue
            with suppress(msgspec.DecodeError):  # an unreadable record is as invalid as a run that does not fit
                yield message.offset(), decode(message.value() or b"")


class _Applied:
    """Applies parts to an image, and counts entries and bytes."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self.entries = self.bytes = 0

    def add(self, parts: Iterable[Part]) -> None:
        for part in parts:
            entries = unpack(part.entries)
            self._image.apply(entries)
            further()
            self.entries += len(entries)
            self.bytes += len(part.entries)
