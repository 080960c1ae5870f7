"""Gap recovery at one copy: batches that its predecessor has done since the newest marker are skipped and counted as
lost.

Source: MECHANISMS A2, docs/decisions/0102. The checkpoint log decides: a marker without changes moves the state from
the batch of the newest marker to the last skipped batch. No batch is done before that marker is valid. So if two copies
skip, or a former leader's last checkpoint arrives as well, only one of them counts. Then the gap is written to the cut
log, for anyone who computes the job again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from holdfast.schemas import cuts
from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.cuts import Gap
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.worker.checkpoint.policies.policy import Kind
from holdfast.services.worker.checkpoint.writer import Moment
from holdfast.services.worker.unit.batches.batch_processor import BatchProcessor
from holdfast.services.worker.unit.checkpoints.checkpoints import Checkpoints
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit

SLICE_MS = 5.0
MOST_BATCHES = 2_048
"""Most batches between a marker and the progress of its unit; progress beyond that is ignored as forged."""


class Phase(Enum):
    """Phases of a gap recovery."""

    DONE = "the copy does its batches"
    PASSING = "batches are taken and not done"
    MARKING = "their marker is on its way"
    NOTING = "the fact is on its way to the cut log"


class GapSkip:
    """The gap recovery of one copy, from a restored image on.

    Args:
        moment: returns the content of a marker as of the copy's batch.
        wake: called after an outcome.
    """

    def __init__(
        self,
        unit: HostedUnit,
        processing: BatchProcessor,
        checkpoints: Checkpoints,
        moment: Callable[[], Moment],
        wake: Callable[[], None],
    ) -> None:
        self._job = unit.job
        self._unit = unit.name
        self._around = unit.around
        self._moment = moment
        self._wake = wake
        self._intake = processing.intake
        self._processing = processing
        self._checkpointer, marker = checkpoints.checkpointer, checkpoints.marker
        self._on = unit.name in unit.job.skipping_units
        self._unnoted = None if marker is None else marker.gap
        self._phase = Phase.DONE
        self._target: int | None = None
        self._records = self._after = 0
        self._lost = False

    def holds(self, commits: bool) -> bool:
        """True if no batch may be done now. `commits` is True if the copy leads with open outputs."""
        return self._phase is not Phase.DONE or (self._unnoted is not None and commits)

    # -- what happens to it -------------------------------------------------------------------------------------------

    def place(self, commit: bool, took_over: bool) -> None:
        """Applies a change of flags. `took_over` is True if the copy begins to lead and processed nothing before."""
        if self._on and took_over and self._phase is Phase.DONE:
            self._phase = Phase.PASSING
            self._target = None
        elif not commit and self._phase in (Phase.PASSING, Phase.MARKING):
            # The inputs of skipped batches are gone: the copy goes back to the newest checkpoint.
            began = self._target is not None and self._processing.batch > self._after
            self._phase, self._lost = Phase.DONE, self._lost or began

    def acked(self, marker: Marker) -> None:
        """Notes that its own marker is valid."""
        if self._phase is Phase.MARKING and marker.gap is not None:
            self._note(marker.gap, then=Phase.DONE)

    def reached(self, marker: Marker) -> None:
        """Notes that the state is as of another copy's marker, whose author may have died before it wrote the gap to
        the cut log."""
        self._unnoted = marker.gap

    # -- its part of a turn -------------------------------------------------------------------------------------------

    def due_ms(self, seen: CopyView) -> float:
        """The time of the next step."""
        if self._phase is Phase.DONE and self._unnoted is None and not self._lost:
            return math.inf
        if self._lost or self._beaten or (self._unnoted is not None and seen.commits):
            return seen.now_ms
        able = seen.commits and self._intake.cutter.caught_up and self._checkpointer.resting
        if self._phase is not Phase.PASSING or not able:
            return math.inf
        return seen.now_ms if self._reached or self._intake.ready(self._processing.batch + 1) else math.inf

    def skip(self, seen: CopyView) -> None:
        """Skips batches, and begins the marker behind the last one.

        Raises StateCorrupted if another copy's checkpoint came first; the copy then begins there.
        """
        if self.due_ms(seen) > seen.now_ms:
            return
        if self._lost or self._beaten:
            raise StateCorrupted("batches were skipped, and the checkpoint log has decided otherwise")
        if self._unnoted is not None:
            self._note(self._unnoted, then=self._phase)
            return
        if self._target is None:
            self._begin()
        while not self._reached and self._intake.ready(self._processing.batch + 1):
            if self._intake.ending:  # the last batches are done: they close what is open
                self._target = self._processing.batch
                break
            self._records += self._processing.pass_over()
            if self._around.clock_ms() - seen.now_ms > SLICE_MS:
                return
        if self._reached:
            self._end()

    @property
    def _beaten(self) -> bool:
        """True if another copy's run is valid, or its own run is not."""
        if self._phase is Phase.MARKING:
            return self._checkpointer.writer.resting
        return self._phase is Phase.PASSING and bool(self._checkpointer.applier.waiting)

    @property
    def _reached(self) -> bool:
        return self._target is None or self._processing.batch >= self._target

    def _begin(self) -> None:
        """Sets the last batch to skip: the newest one that is delivered or known to be done.

        Nothing is skipped under a policy with global checkpoints, because a rollback to one would include skipped
        batches.
        """
        self._after = self._processing.batch
        self._records = 0
        known = max(self._processing.outputs.delivery.delivered, self._job.processed(self._unit))
        replays = self._job.held is not None or known > self._after + MOST_BATCHES
        self._target = self._after if replays else max(known, self._after)

    def _end(self) -> None:
        upto = self._processing.batch
        if upto == self._after:
            self._phase = Phase.DONE
            self._wake()
            return
        gap = Gap(
            self._unit, self._after, upto, min(self._processing.outputs.delivery.delivered, upto), records=self._records
        )
        self._phase = Phase.MARKING
        self._checkpointer.writer.begin(replace(self._moment(), gap=gap), Kind.SWEEP)

    def _note(self, gap: Gap, then: Phase) -> None:
        """Writes the gap to the cut log, again if Kafka may have lost it. `then` is the next phase."""
        self._phase = Phase.NOTING
        self._unnoted = None

        def noted(error: Exception | None, _: int) -> None:
            if error is not None:
                self._note(gap, then)
            else:
                self._phase = then
                self._wake()

        self._around.appender.append(Partition(self._job.topics.cuts, 0), cuts.encode(gap), done=noted)
