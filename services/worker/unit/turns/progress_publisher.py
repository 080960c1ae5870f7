"""Publishes a copy's progress. Source: PROTOCOL 1, `<job>.<g>.progress`."""

from __future__ import annotations

import math

from holdfast.schemas.checkpoints import Marker, Position
from holdfast.schemas.progress import Progress, encode
from holdfast.schemas.topics import Partition
from holdfast.services.worker.sources.cutter import Cutter
from holdfast.services.worker.unit.batches.batch_processor import BatchProcessor
from holdfast.services.worker.unit.checkpoints.checkpoints import Checkpoints
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.facts.steps import Steps
from holdfast.services.worker.unit.outputs.outputs import Outputs

PROGRESS_MS, SELDOM_PROGRESS_MS = 100.0, 300.0
"""Least time between two publications, and the value while batches are far apart; every worker reads every publication.
All copies of a worker count the first from the same moment, so their publications share a request to Kafka. After the
second, the next batch is published when it is done, because sources measure its time by that."""


class ProgressPublisher:
    """Publishes the progress of one copy when it is new and its time has come.

    Args:
        unit: name of the unit.

    Attributes:
        steps: longest steps since the last publication.
    """

    def __init__(
        self,
        unit: HostedUnit,
        processing: BatchProcessor,
        checkpoints: Checkpoints,
        outputs: Outputs,
        cutter: Cutter,
    ) -> None:
        job, around = unit.job, unit.around
        self._unit = unit.name
        self._partition = Partition(job.topics.progress, 0)
        self._published = around.progress
        self._cut_log = job.topics.cuts
        self._job = job
        self._processing = processing
        self._checkpoints = checkpoints
        self._outputs = outputs
        self.steps = Steps(around.clock_ms, around.cpu_ms)
        self._last_ms = around.clock_ms()
        self._batch = self._looked = -1
        self._kept: dict[str, int] = {}
        self._cutter = cutter
        self._arrival = (0, 0)
        self._over = False
        self._rests = 0

    def due_ms(self, seen: CopyView) -> float:
        """The time to publish; math.inf without `commit`, or if all progress is published."""
        if not seen.commits:
            return math.inf
        if self._cutter.log.rests > self._rests:
            return seen.now_ms  # a savepoint or an update waits for the checkpoints of all units
        published = self._batch >= self._processing.batch and self._kept == self._outputs.retained
        published &= self._arrival[0] >= self._cutter.arrived()[0]
        return math.inf if published else self._next_ms

    @property
    def _next_ms(self) -> float:
        if not self._job.spacing.seldom:
            return (self._last_ms // PROGRESS_MS + 1) * PROGRESS_MS
        done_now = self._processing.batch > self._looked
        return self._last_ms + (SELDOM_PROGRESS_MS if done_now else 2 * SELDOM_PROGRESS_MS)

    def publish_if_due(self, seen: CopyView) -> None:
        """Publishes if it is due."""
        if seen.now_ms >= self.due_ms(seen):
            self.publish(seen.now_ms)
        self._looked = self._processing.batch

    def swept(self, marker: Marker, now_ms: float) -> None:
        """Publishes a sweep with a valid marker: at once, or with the next batch while batches are far apart."""
        if marker.ended or not self._job.spacing.seldom:
            self.publish(now_ms)

    def publish(self, now_ms: float) -> None:
        """Publishes the progress of the leader."""
        progress = self.progress()
        self._last_ms = now_ms
        self._batch = progress.processed
        self._kept = self._outputs.retained
        self._arrival = (progress.arrived, progress.arrived_ms)
        self._rests = progress.rests
        self._cutter.arrivals.published()
        self._append(progress)
        self.steps.restart()

    def publish_end(self) -> None:
        """Publishes once that the unit has ended, with or without `commit`. The author of the last marker may have lost
        commit or died before it read the marker back, and the leader then has nothing left to do."""
        marker = self._checkpoints.marker
        if marker is None or not marker.ended or self._over:
            return
        self._over = True
        self._append(self.progress())

    def progress(self) -> Progress:
        """The progress as of the last batch done."""
        done, marker, holding = self._processing, self._checkpoints.marker, self._checkpoints.holding
        arrived, arrived_ms = self._cutter.arrived()
        acked = holding.acked(marker)
        newest = () if marker is None or marker is acked else self._newest(marker)
        return Progress(
            unit=self._unit,
            processed=done.batch,
            acked=0 if acked is None else acked.b,
            positions=() if acked is None else self._needed(acked),
            watermark=done.watermark,
            records=done.counts["records"],
            late=done.counts["late"],
            dead=done.counts["dead"] + self._outputs.delivery.too_large,
            lost=done.counts["lost"],
            step_ms=round(self.steps.longest_ms, 3),
            step_cpu_ms=round(self.steps.longest_cpu_ms, 3),
            ended=marker is not None and marker.ended,
            late_dropped=done.late_dropped,
            leap=done.leap,
            retained=sum(self._outputs.retained.values()),
            line=holding.line,
            marked=0 if marker is None or marker is acked else marker.b,
            marks=holding.marks(marker),
            since=holding.since,
            arrived=arrived,
            arrived_ms=arrived_ms,
            newest=newest,
            read=self._job.read() if newest else -1,
            rests=self._cutter.log.rests,
        )

    def _needed(self, marker: Marker) -> tuple[Position, ...]:
        """The positions at which a copy that begins with the marker continues: of its inputs and, with source tasks, of
        the cut log."""
        cuts = () if marker.cuts is None else (Position(self._cut_log, 0, marker.cuts.upto),)
        return (*marker.positions, *cuts)

    def _newest(self, marker: Marker) -> tuple[Position, ...]:
        """The marker's positions, if data topics may be trimmed to them: only sources retain, and everything before
        them was sent under changes that were read here."""
        known = self._job.only_sources_retain and self._job.knows(marker.seen)
        return tuple(marker.positions) if known else ()

    def _append(self, progress: Progress) -> None:
        self._published.append(self._partition, encode(progress), self._unit.encode())
