"""Processes the batches of a copy: input passes through the unit's operators, and results go to the outputs.

Source: PROTOCOL 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from holdfast.schemas.answers import Answer
from holdfast.schemas.checkpoints import KEYS, SKIPPED, Marker
from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK, TaskRaised
from holdfast.schemas.leaps import Leap, widest
from holdfast.schemas.topics import edge as edge_of
from holdfast.services.kernel.dataflow.unit import Unit
from holdfast.services.kernel.dataflow.walk import Walked, pass_over, walk
from holdfast.services.kernel.errors import TooLarge
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Build
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.state.forked import ForkedStore
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.worker.checkpoint.writer import Moment
from holdfast.services.worker.core.edges import without_edges
from holdfast.services.worker.unit.batches.effect_digests import EffectDigests
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.inputs.intake import Intake
from holdfast.services.worker.unit.outputs.outputs import Outputs

MIB = 1024 * 1024
DROPPED = "dropped/"
"""Prefix of the names of counts of rows dropped as late; the name of kernel/plans/late_counts.py follows."""


class AnswersOf(Protocol):
    """The answers that users' code awaits."""

    def ready(self, batch: int) -> bool: ...
    def known(self, batch: int) -> Mapping[str, Answer]: ...


class NoAnswers:
    """The answers for code that awaits none."""

    def ready(self, batch: int) -> bool:
        return True

    def known(self, batch: int) -> Mapping[str, Answer]:
        return {}


class BatchProcessor:
    """The processing of one copy, from a restored image on.

    Args:
        marker: marker of the image; None for an empty image.
        build: creates the tasks.

    Attributes:
        batch: last batch done.
        counts: counts of records and rows up to that batch, as in markers.
        answers: answers that users' code awaits.
        held: next batch, in which users' code raised, with its start; it is finished when the cut log decides.
    """

    def __init__(
        self,
        unit: HostedUnit,
        store: StateStore,
        marker: Marker | None,
        intake: Intake,
        outputs: Outputs,
        build: Build = catalogue.build,
    ) -> None:
        job, layout, spent = unit.job, unit.layout, unit.spent
        self._limit_mb = job.most_mb
        self._build = build
        self._spans = job.spans_of(layout.unit.name)
        self._layout = layout
        self.store = store
        self.intake = intake
        self.outputs = outputs
        self._spent = spent
        spent.edges.restore(marker.counts if marker else {})
        self.batch = 0 if marker is None else marker.b
        self.counts = {"records": 0, "late": 0, "dead": 0, "lost": 0} | without_edges(marker.counts if marker else {})
        self._leap = None if marker is None else marker.leap
        self._watermarks = {task.name: NO_WATERMARK for task in layout.tasks} | (marker.watermarks if marker else {})
        self._unit: Unit | None = None
        self.showing = EffectDigests(job, layout, store)
        self.held: tuple[Walked, int] | None = None
        self.answers: AnswersOf = NoAnswers()
        self._over = self._is_over()

    @property
    def ready(self) -> bool:
        """True if the next batch is here with its answers, and its outputs have room."""
        if self.ended or not self.intake.ready(self.batch + 1) or self.outputs.full or self.held is not None:
            return False
        return self.answers.ready(self.batch + 1)

    def do_next(self, send: bool, raised: Mapping[str, TaskRaised] | None = None) -> bool:
        """Processes the next batch, which is ready. True if it brought rows, made any, or changed the state.

        Args:
            raised: rows at which users' code raises in the batch, by task; None if the cut log has no decision. Then
                the batch is held if the code raises.

        Raises TooLarge, Divergence.
        """
        self._check_size()
        if self._unit is None:
            self._unit = Unit(self._layout, self.store, self._watermarks, self._build)
        batch = self.batch + 1
        self.showing.begins()
        began_ns = 0 if self._spans is None else self._spans.now_ns()
        walked = walk(self._unit, batch, self.intake.feeds, self.intake.inputs, raised, self.answers.known(batch))
        if raised is None and walked.produced.raised:
            self.held = walked, began_ns
            return False
        return self._done(batch, walked, began_ns, send)

    def forked(self, store: ForkedStore, build: Build) -> Unit:
        """The tasks as of the last batch done, over a fork of its state. `build` creates them."""
        return Unit(self._layout, store, self.watermarks, build)

    def pass_over(self) -> int:
        """Skips the next batch, which is ready. Returns the number of its records."""
        self.batch += 1
        edges, skipped = pass_over(self.batch, self.intake.feeds, self.intake.inputs), 0
        sources = {feed.task.operator.name for feed in self.intake.feeds.values()}
        for edge, (records, size) in edges.items():
            self._spent.edges.take(edge, records, size)
            self.counts["records"] += records if edge in sources else 0
            skipped += records
        self.counts["lost"] += skipped
        self.counts[SKIPPED] = self.counts.get(SKIPPED, 0) + skipped
        return skipped

    def let_go(self, send: bool) -> bool:
        """Finishes the held batch. Returns the result of `do_next`."""
        assert self.held is not None
        (walked, began_ns), self.held = self.held, None
        return self._done(self.batch + 1, walked, began_ns, send)

    @property
    def raised(self) -> dict[str, TaskRaised]:
        """Rows at which users' code raised in the held batch, by task."""
        return {} if self.held is None else self.held[0].produced.raised

    def _done(self, batch: int, walked: Walked, began_ns: int, send: bool) -> bool:
        self.batch, self._over = batch, self._is_over()
        self.showing.done(batch, walked)
        self._count(walked)
        self._count_edges(walked)
        self.outputs.take(batch, walked.produced, walked.dead, send, self.counts.get(SKIPPED, 0))
        if self._spans is not None:
            self._spans.did(batch, began_ns, walked, self.outputs.outbox.epoch, self.outputs.open)
        return bool(walked.rows or walked.dead or self.store.changed)

    def _check_size(self) -> None:
        """Raises TooLarge if the state exceeds its limit. The size is estimated without cost, from the mean size of an
        entry, which is known from the first checkpoint on."""
        if self._limit_mb is None:
            return
        size = self._spent.entry.of(self.store.keys)
        if size > self._limit_mb * MIB:
            raise TooLarge(
                f"the state of unit {self._layout.unit.name} takes {size / MIB:.1f} MiB "
                f"({plural(self.store.keys, 'key')}), more than memory_limit_mb {self._limit_mb} allows: give the "
                "job a higher limit, or a smaller state "
                "by shorter windows or more tasks, and submit it again"
            )

    def _count(self, walked: Walked) -> None:
        self.counts["records"] += walked.records
        self.counts["lost"] += walked.lost.total()
        self.counts["late"] += walked.produced.late
        self.counts["dead"] += len(walked.dead)
        for source, count in walked.produced.dropped.items():
            if count:
                self.counts[DROPPED + source] = self.counts.get(DROPPED + source, 0) + count

    def _count_edges(self, walked: Walked) -> None:
        edges = self._spent.edges
        for edge, (records, size) in walked.edges.items():
            edges.take(edge, records, size)
            self._spent.processed += records
        for sent in walked.produced.sent:
            edges.put(edge_of(sent.output.topic), sent.rows.height)
        for sink in walked.produced.sinks:
            edges.put(sink.task.operator.name, sink.rows.height)

    def jump(self, marker: Marker) -> None:
        """Continues behind another copy's marker, which is ahead and which the state has reached."""
        self.batch = marker.b
        self.counts |= without_edges(marker.counts)
        self._leap = widest([self._leap, marker.leap])
        self._spent.edges.restore(marker.counts)
        self._unit, self._watermarks = None, self._watermarks | marker.watermarks
        self._over = self._is_over()
        self.intake.skip(marker)
        self.outputs.adopt(marker)

    def moment(self, raised: int, holds: tuple[bool, int | None]) -> Moment:
        """The content of a marker as of the last batch.

        Args:
            raised: last batch in which its code raised.
            holds: as in Moment.
        """
        return Moment(
            batch=self.batch,
            watermarks=dict(self.watermarks),
            positions=self.intake.inputs.positions(),
            cuts=self.intake.cutter.as_of(self.batch),
            counts=self.counts | self._spent.edges.counts() | {KEYS: self.store.keys},
            ended=self.ended,
            leap=self.leap,
            position=self.outputs.delivery.delivered,
            raised=raised,
            kept=self.outputs.retained,
            holds=holds,
            seen=self.intake.seen(),
        )

    @property
    def watermarks(self) -> dict[str, int]:
        """The watermarks of each task's inputs, after the last batch done."""
        return self._watermarks if self._unit is None else self._unit.watermarks

    @property
    def watermark(self) -> int:
        return min(self.watermarks.values(), default=NO_WATERMARK)

    @property
    def ended(self) -> bool:
        """True if the end of all inputs is processed."""
        return self._over and self.held is None

    def _is_over(self) -> bool:
        return all(watermark == END_WATERMARK for watermark in self.watermarks.values())

    @property
    def leap(self) -> Leap | None:
        """The record that moved a source's watermark furthest."""
        return widest([self._leap, *(feed.leap for feed in self.intake.feeds.values())])

    @property
    def late_dropped(self) -> dict[str, int]:
        """The numbers of rows dropped as late up to its batch, by the name under which they are counted."""
        return {name.removeprefix(DROPPED): n for name, n in self.counts.items() if name.startswith(DROPPED)}
