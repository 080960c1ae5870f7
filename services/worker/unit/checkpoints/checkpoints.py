"""The checkpoint work of one copy, done when a policy says so (turns/policy_view.py holds the view of the policies).

Source: PROTOCOL 6 and 7. The scheduler decides the time, the checkpointer writes and applies, the trimmer frees data
that no copy needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Protocol

from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.worker.checkpoint.checkpointer import Checkpointer, RunListener
from holdfast.services.worker.checkpoint.policies.policy import Kind
from holdfast.services.worker.checkpoint.restore import Rebuilt
from holdfast.services.worker.checkpoint.unit_image import UnitImage
from holdfast.services.worker.checkpoint.writer import Moment, WrittenLog
from holdfast.services.worker.unit.checkpoints.held_checkpoints import HeldCheckpoints
from holdfast.services.worker.unit.checkpoints.protection import Protection
from holdfast.services.worker.unit.checkpoints.trimmer import Trimmer
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit

HELD_MS = 1.0
"""Longest delay before a unit whose batches wait for another unit's capture notices its end."""
AGAIN_MS = 5.0
"""Time after which a policy that delays a run is asked again."""


class CheckpointListener(Protocol):
    """The copy that is informed about markers of its checkpoint log."""

    def acked(self, marker: Marker, kind: Kind) -> None:
        """Reports that the copy's own marker was read back as valid."""

    def marked(self, marker: Marker) -> None:
        """Reports a valid marker, of any copy, that the copy has reached."""

    def jumped(self, marker: Marker) -> None:
        """Reports that the state is now as of another copy's marker, which is ahead."""


class Checkpoints:
    """The checkpoints of one copy.

    Attributes:
        marker: last valid marker that the copy has reached.
        holding: records kept for global checkpoints.
        still: True if no batch since the last sweep brought rows or changed the state.
    """

    def __init__(
        self,
        listener: CheckpointListener,
        unit: HostedUnit,
        rebuilt: Rebuilt,
        store: StateStore,
    ) -> None:
        job, layout, around, spent = unit.job, unit.layout, unit.around, unit.spent
        self._listener = listener
        self.store = store
        self._spent = spent
        self._clock_ms = around.clock_ms
        self._scheduler = around.checkpoints
        self._key = unit.key
        self._refusals = around.refusals
        self._job_name = job.plan.job
        self.partition = Partition(job.topics.checkpoints, layout.unit.partition)
        self.next_offset = rebuilt.next_offset
        written = WrittenLog(self.partition, rebuilt.log, around.author, around.appender, clock_ms=around.clock_ms)
        heard = RunListener(self._acked, self._passed, self._jumped, self._captured)
        self.checkpointer = Checkpointer(written, UnitImage(store, rebuilt.batch), heard, spent)
        self.marker = rebuilt.marker
        self.holding = HeldCheckpoints(job, rebuilt.log, rebuilt.line)
        now_ms = around.clock_ms()
        spent.marked_ms = None if rebuilt.marker is None else now_ms
        self.protection = Protection(job, unit.name, spent, around, now_ms=now_ms)
        self.swept_ms = self.captured_ms = now_ms
        self.captured_batch = -1
        self.swept_batch = rebuilt.batch
        self.still = True
        self.trimmer = Trimmer(job, layout, self.partition, around)

    def held(self) -> Marker | None:
        """The marker up to which the inputs may be trimmed."""
        return self.holding.acked(self.marker)

    @property
    def finished(self) -> bool:
        """True if the last marker is the final one and the unit cannot roll back to an earlier one."""
        return self.marker is not None and self.marker.ended and self.holding.over(self.marker)

    # -- what it does -------------------------------------------------------------------------------------------------

    def read(self, offset: int, value: bytes) -> None:
        """Reads a record of the unit's checkpoint log."""
        if (error := self.checkpointer.read(offset, value)) is not None:
            self._refusals.refuse(self.partition, offset, error, self._job_name)

    def batch_done(self, still: bool) -> None:
        """Notes a finished batch; `still` is True if it brought no rows and changed nothing."""
        self.still = self.still and still

    def placed(self, now_ms: float) -> None:
        """Restarts the intervals after `commit` has changed. A copy that takes over first catches up, and has the last
        marker."""
        self.swept_ms = self.captured_ms = now_ms

    def due_ms(self, seen: CopyView) -> float:
        """The time at which a run is due, or a piece of a run to write."""
        if self.checkpointer.writer.working:
            return seen.now_ms
        if not seen.commits or not self.checkpointer.resting or seen.undecided:
            return math.inf
        return seen.now_ms + self._scheduler.wait_ms(self._key, seen.now_ms)

    def begin(self, seen: CopyView, moment: Callable[[], Moment]) -> None:
        """Begins a run if a policy says so and none is under way. `moment` returns the content of its marker."""
        if not self.checkpointer.resting or seen.undecided:
            return
        kind = self._scheduler.capture(self._key, seen.now_ms)
        if kind is None:
            return
        self.captured_ms = seen.now_ms
        self.captured_batch = seen.batch
        self.protection.captured()
        if kind is Kind.SWEEP:
            self.swept_ms = seen.now_ms
            self.swept_batch = seen.batch
            self.trimmer.output_trimmed = False
        self.checkpointer.writer.begin(moment(), kind)
        self.still = self.still or kind is Kind.SWEEP

    def next_batch_ms(self, seen: CopyView) -> float:
        """The time of the next batch. A policy may hold the batch back for a capture."""
        captures = seen.commits and not seen.undecided
        return seen.now_ms + HELD_MS if captures and self._scheduler.holds(self._key, seen.now_ms) else seen.now_ms

    def apply_due_ms(self, seen: CopyView) -> float:
        """The time at which a piece of another copy's run is due."""
        if not self.checkpointer.applier.waiting or seen.undecided:
            return math.inf
        if not self.checkpointer.applies(seen.batch, suspended=seen.suspended):
            return math.inf
        return seen.now_ms if self._scheduler.applies(self._key, seen.now_ms) else seen.now_ms + AGAIN_MS

    def apply(self, seen: CopyView) -> None:
        """Applies pieces of other copies' runs."""
        applier = self.checkpointer.applier
        applier.note_arrivals(seen.now_ms)
        if applier.waiting and self._scheduler.applies(self._key, seen.now_ms) and not seen.undecided:
            self.checkpointer.apply(seen.batch, suspended=seen.suspended)

    def trim_due_ms(self, seen: CopyView) -> float:
        return self.trimmer.next_deadline(still=self.still) if seen.commits else math.inf

    def trim(self, seen: CopyView) -> None:
        if seen.commits:
            self.trimmer.trim(self.checkpointer.log, seen.batch, seen.now_ms)

    # -- what comes of it ---------------------------------------------------------------------------------------------

    def _captured(self, keys: Collection[bytes], kind: Kind) -> None:
        self._scheduler.captured(self._key, keys, kind)

    def _acked(self, marker: Marker) -> None:
        self.protection.saved()
        self._read(marker)
        self._listener.acked(marker, self.checkpointer.writer.kind)

    def _passed(self, marker: Marker) -> None:
        if marker.gap is not None:
            raise StateCorrupted(
                f"the unit has skipped batches {marker.gap.after + 1} to {marker.b}, which it has done"
            )
        self.protection.passed()
        self._read(marker)
        self._listener.marked(marker)

    def _jumped(self, marker: Marker) -> None:
        self.protection.passed()
        self._read(marker)
        self._listener.jumped(marker)

    def _read(self, marker: Marker) -> None:
        self.marker, self._spent.marked_ms = marker, self._clock_ms()
