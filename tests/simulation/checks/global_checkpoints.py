"""Rules for global checkpoints, looked at along the trace of a history: docs/decisions/0085 and 0086.

Independent of what copies keep in memory: markers are noted as they become valid, and what is complete as it is stated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.schemas import assignments
from holdfast.schemas.assignments import job_key, unit_key
from holdfast.schemas.checkpoints import CheckpointRecord, Marker, unpack
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.buffering import UPSTREAM, buffering
from holdfast.services.decisions.checkpoint_log import restore
from holdfast.services.decisions.policies import ALIGNED, in_force
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.state.image import MemoryImage
from tests.simulation.kafka.broker import Trimmed

Entries = object


def entries(image: MemoryImage) -> Entries:
    return image.slice(b"", 2**62)


@dataclass(slots=True)
class Lived:
    """A unit: the valid markers of the line on which its log is, and the image as of each.

    last: the newest of them is the last.
    ended: and the unit goes back to none.
    done: the last one was valid, on this line or before.
    line: on which its log is; by its last change it may be on a later one.
    """

    markers: dict[int, Marker] = field(default_factory=dict)
    images: dict[int, Entries] = field(default_factory=dict)
    ended: bool = False
    line: int = 0
    last: bool = False
    done: bool = False


class GlobalCheckpoints:
    """Global checkpoints of one generation."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._key = plan, job_key(plan.job, plan.generation)
        """Units of Spark drivers have no part in it."""
        self._units = {unit.name: Lived() for unit in plan.units if not unit.host}
        self.assigned = Assigned()
        self.stated: list[int] = []

    @property
    def newest(self) -> tuple[int, int]:
        """Batch of the newest that is complete, and the line on which it is."""
        known = self.assigned.checkpoint(self._key)
        return self.assigned.complete(self._key), 0 if known is None else known.line

    # -- what happens -------------------------------------------------------------------------------------------------

    def decide(self, value: bytes) -> Iterator[str]:
        """A record of `assignments`."""
        before = self.assigned.checkpoint(self._key)
        self.assigned.read(assignments.decode(value))
        stated = self.assigned.checkpoint(self._key)
        if stated is None or stated is before:
            return
        self.stated.append(stated.batch)
        for unit, lived in self._units.items():
            behind = lived.last and max(lived.markers) <= stated.batch
            change = self.assigned.of(unit_key(self._plan.job, self._plan.generation, unit))
            void = change is not None and change.line > lived.line and stated.batch > change.back
            if void or (stated.batch not in lived.markers and not behind):
                yield f"complete: batch {stated.batch} was stated to be, and {unit} has no marker for it"

    def mark(self, unit: str, marker: Marker, image: MemoryImage) -> None:
        """A marker is valid."""
        lived = self._units[unit]
        lived.markers[marker.b], lived.images[marker.b] = marker, entries(image)
        lived.last = marker.ended
        lived.done |= marker.ended
        lived.ended = marker.ended and (buffering(self._plan) == UPSTREAM or self._held is None)

    def roll_back(self, unit: str, b: int, line: int) -> MemoryImage:
        """The log of the unit continues behind the marker of this batch; the image as of then."""
        lived = self._units[unit]
        lived.markers = {at: marker for at, marker in lived.markers.items() if at <= b}
        lived.images = {at: image for at, image in lived.images.items() if at <= b}
        lived.ended, lived.last, lived.line = False, False, line
        image = MemoryImage()
        kept = lived.images.get(b)
        image.apply([] if kept is None else list(kept[0]))  # type: ignore[index]
        return image

    # -- what must be kept --------------------------------------------------------------------------------------------

    @property
    def _held(self) -> int | None:
        """The newest that is complete, if units may still go back to it."""
        complete = self.assigned.complete(self._key)
        return complete if in_force(self._plan, self.assigned).policy == ALIGNED and complete >= 0 else None

    def needed(self, unit: str) -> Marker | None:
        """The marker with which the unit would begin again; None: there is none, or nobody may ask for that."""
        lived, held = self._units[unit], self._held
        return None if held is None or lived.ended else lived.markers.get(held)

    def begins_with_nothing(self, unit: str) -> bool:
        return self._held == 0 and not self._units[unit].ended

    def restored(self, unit: str, partition: Partition, left: list[tuple[int, CheckpointRecord]]) -> Iterator[str]:
        """left: of the unit's log, after a trim."""
        marker = self.needed(unit)
        if marker is None:
            if self.begins_with_nothing(unit):
                yield f"global restore: {partition} was trimmed, and {unit} may go back to its start"
            return
        try:
            log, runs = restore(iter(left), 2**30, marker.b)
        except StateCorrupted as error:
            yield f"global restore: {partition} restores nothing: {error}"
            return
        image = MemoryImage()
        for run in runs:
            for part in run.parts:
                image.apply(unpack(part.entries))
        if log.last_id != marker.id or entries(image) != self._units[unit].images[marker.b]:
            yield f"global restore: {partition} does not restore {unit} as of batch {marker.b}"

    # -- at the end ---------------------------------------------------------------------------------------------------

    def left_behind(self, lines: Mapping[str, int]) -> Iterator[str]:
        """Units that were to begin again at a global checkpoint, and did not. lines: of their logs.

        A unit that has processed its end need not any more: the job may be over before it does.
        """
        for unit, line in lines.items():
            lived = self._units.get(unit)
            if lived is None or lived.done:
                continue
            change = self.assigned.of(unit_key(self._plan.job, self._plan.generation, unit))
            if change is not None and change.line != line:
                yield f"rollback: {unit} is to be on line {change.line}, and its log is on line {line}"


def trimmed_too_far(found: GlobalCheckpoints, unit: str, trim: Trimmed, at: int) -> Iterator[str]:
    """at: where the unit would read on if it went back."""
    if (found.needed(unit) is not None or found.begins_with_nothing(unit)) and trim.upto > at:
        yield f"global trim: {trim.author} trimmed {trim.partition} to {trim.upto}, {unit} may go back to {at}"
