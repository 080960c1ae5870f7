"""The turns of a copy with an image: `RunningCopy._tasks` lists all tasks of a copy and when each is due.

By its flags a copy processes, cuts, checkpoints and trims, or applies another copy's runs. Source: PROTOCOL 3 to 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from holdfast.schemas.assignments import Flags
from holdfast.schemas.checkpoints import Marker
from holdfast.services.kernel.operators.catalogue import Build
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.worker.checkpoint.policies.policy import Kind
from holdfast.services.worker.checkpoint.restore import Rebuilt
from holdfast.services.worker.checkpoint.writer import Moment
from holdfast.services.worker.core.lifecycle import Placed
from holdfast.services.worker.sinks.delivery import Delivery
from holdfast.services.worker.unit.batches.batch_processor import BatchProcessor
from holdfast.services.worker.unit.batches.gap_skip import GapSkip
from holdfast.services.worker.unit.checkpoints.checkpoints import Checkpoints
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.inputs.cuts import Cuts
from holdfast.services.worker.unit.inputs.intake import Intake
from holdfast.services.worker.unit.outputs.outputs import Outputs
from holdfast.services.worker.unit.outputs.result_waits import ResultWaits
from holdfast.services.worker.unit.tentative.tentative_line import TentativeLine
from holdfast.services.worker.unit.turns.condition import Condition
from holdfast.services.worker.unit.turns.handlers import Handlers
from holdfast.services.worker.unit.turns.policy_view import PolicyView
from holdfast.services.worker.unit.turns.progress_publisher import ProgressPublisher
from holdfast.services.worker.unit.turns.turns import Task, Turns, Watched, by_time, never
from holdfast.services.worker.unit.user_code.raised_errors import RaisedErrors
from holdfast.services.worker.unit.user_code.user_answers import UserAnswers

SLICE_MS = 5.0


class RunningCopy:
    """A copy from a restored image of batch `began` on. Raises the errors that end it, such as StateCorrupted."""

    def __init__(
        self,
        unit: HostedUnit,
        rebuilt: Rebuilt,
        placed: Placed,
        gaps: Mapping[str, int],
        build: Build,
        took_over: bool = False,
    ) -> None:
        self._unit = unit
        store = StateStore(rebuilt.image, rebuilt.tables, rebuilt.keys)
        self.turns: Turns
        self.condition: Condition
        wake = lambda: self.turns.wake()  # noqa: E731
        leads = lambda: self.condition.commits  # noqa: E731
        self.outputs = Outputs(unit, rebuilt.marker, placed.epoch, wake)
        self.intake = Intake(unit, rebuilt, gaps, leads=leads)
        done = self._processing = BatchProcessor(
            unit, store, rebuilt.marker, self.intake, outputs=self.outputs, build=build
        )
        cutter = self.intake.cutter
        checks = self.checkpoints = Checkpoints(self, unit, rebuilt, store)
        self.cuts = Cuts(unit, self.intake, checks.held, leads=leads)
        self.publisher = ProgressPublisher(unit, done, checks, self.outputs, cutter=cutter)
        self.raising = RaisedErrors(unit, rebuilt.marker, done, checks.checkpointer.log, wake=wake)
        self._answering = done.answers = UserAnswers(unit, done, wake)
        self._skipping = GapSkip(unit, done, checks, self.moment, wake=wake)
        self._line = TentativeLine(unit, done)
        self.condition = Condition(
            unit, placed.flags, done, checks, answering=self._answering, raising=self.raising, skipping=self._skipping
        )
        self.policy_view = PolicyView(self.condition, checks, unit)
        self.handlers = Handlers(
            self.condition, checks, self.intake, self.publisher.steps, hears=self._line.hears, wake=wake
        )
        waits = ResultWaits(unit, self.outputs, done.batch)
        self.turns = Turns(self._tasks(waits), self._watched(), self.condition.view)
        self._answering.place(placed.flags)
        self._skipping.place(placed.flags.commit, took_over)
        self.raising.place(placed.epoch, placed.flags)
        unit.around.checkpoints.join(unit.key, self.policy_view)

    # -- its turns ----------------------------------------------------------------------------------------------------

    def _tasks(self, waits: ResultWaits) -> tuple[Task, ...]:
        """All tasks of a copy, in the order of a turn."""
        checks, cuts = self.checkpoints, self.cuts
        return (
            Task("see whether a topic in doubt is the same", never, by_time(self.intake.settle_doubts)),
            Task("see at which rows code raised", by_time(self.raising.due_ms), self._look_at_raising, changes=True),
            Task(
                "deliver what has waited long enough",
                lambda _: self.outputs.delivery.look_ms,
                by_time(self.outputs.deliver_if_due),
                changes=True,
            ),
            Task("skip what a gap leaves out", self._skipping.due_ms, self._skipping.skip, changes=True),
            Task("ask what users' code awaits", by_time(self._answering.due_ms), by_time(self._answering.take_steps)),
            Task("process", self._process_due, self._process, changes=True),
            Task("work without what is out", self._line.due_ms, self._line.advance),
            Task("ask for records that are cut and do not come", cuts.ask_due_ms, cuts.ask),
            Task("cut", cuts.due_ms, cuts.propose),
            Task("checkpoint", checks.due_ms, self._checkpoint, changes=True),
            Task("trim", checks.trim_due_ms, checks.trim),
            Task("trim the cut log", by_time(cuts.trimmer.due_ms), by_time(cuts.trimmer.trim_if_due)),
            Task("see what retention keeps", by_time(cuts.retention.due_ms), by_time(cuts.retention.ask_if_due)),
            Task("apply another copy's checkpoint", checks.apply_due_ms, checks.apply, changes=True),
            Task("hold what comes too fast", never, lambda seen: self.intake.hold(seen.batch + 1, seen.suspended)),
            Task("measure how long results take", never, waits.measure),
            Task("publish progress", self.publisher.due_ms, self.publisher.publish_if_due),
            Task("end if a frame could not be delivered", never, by_time(self.outputs.look_at_frames)),
        )

    def _watched(self) -> tuple[Watched, ...]:
        return (
            Watched("acknowledgements", self._awaits_answers, lambda: self.outputs.answers),
            Watched("acks of readers", lambda: self.condition.commits, lambda: self.outputs.retained),
            Watched("a pause", lambda: self.condition.commits, lambda: self._unit.job.rests),
            Watched(
                "users' topics", self._awaits_topics, lambda: (self._unit.around.topics.answered, self.intake.answers)
            ),
        )

    def step(self, now_ms: float) -> bool:
        """Takes a turn. True if a batch was processed."""
        self._worked = False
        self.condition.changed()
        with self._unit.around.doing.traces.runs(self._unit.key, self._processing.batch + 1):
            self.turns.take(now_ms)
        return self._worked

    def _awaits_answers(self) -> bool:
        return self.checkpoints.checkpointer.writer.flushing or self.outputs.full

    def _awaits_topics(self) -> bool:
        cuts = self.condition.flags.commit and bool(self.intake.feeds)
        return cuts or self.intake.doubtful or self.intake.keeps_out

    # -- flags --------------------------------------------------------------------------------------------------------

    def place(self, epoch: int, flags: Flags) -> None:
        """Applies these flags from now on."""
        self.condition.changed()
        self.turns.wake()
        before, self.condition.flags = self.condition.flags, flags
        self.outputs.outbox.epoch = epoch
        self._answering.place(flags)
        self.raising.place(epoch, flags)
        self._skipping.place(flags.commit, flags.commit and not before.commit and not before.process)
        if before.commit and not flags.commit:
            self.checkpoints.checkpointer.writer.abandon()
            self.outputs.keep_rows()
        if before.commit != flags.commit:
            self.intake.cutter.release()
            self.checkpoints.placed(self._unit.around.clock_ms())
        if flags.process and not before.process:
            self.checkpoints.checkpointer.activate(self._processing.batch)
        if flags.send and not before.send:
            self.outputs.send_kept(self.checkpoints.marker)

    def deliver_by(self, delivery: Delivery) -> None:
        """Opens its outputs. Raises StateCorrupted if their position is before that of a valid marker."""
        marker = self.checkpoints.marker
        self.outputs.deliver_by(delivery, 0 if marker is None else marker.position)
        self.turns.wake()

    # -- processing ---------------------------------------------------------------------------------------------------

    def _process_due(self, seen: CopyView) -> float:
        return self.checkpoints.next_batch_ms(seen) if self.condition.data_wait else math.inf

    def _process(self, seen: CopyView) -> None:
        began_ms = done_ms = self._unit.around.clock_ms()  # other copies have had their part of this turn
        while self.condition.data_wait and self.checkpoints.next_batch_ms(seen) <= seen.now_ms:
            active = self._processing.do_next(self.condition.flags.send, self.raising.known(self._processing.batch + 1))
            seen = self.condition.view(seen.now_ms)
            if not seen.undecided:
                self._batch_done(active)
            done_ms = self._unit.around.clock_ms()
            if done_ms - began_ms > SLICE_MS:
                break
            self._unit.around.doing.traces.runs(self._unit.key, self._processing.batch + 1)
        if self._processing.ended:
            self.outputs.delivery.hurry()
        self._unit.spent.process_ms += done_ms - began_ms
        self._look_at_raising(seen)

    def _look_at_raising(self, _: CopyView) -> None:
        while (active := self.raising.take_steps()) is not None:
            self._batch_done(active)

    def _batch_done(self, active: bool) -> None:
        """Notes a finished batch; `active`: it brought rows, made any, or changed the state."""
        self.checkpoints.batch_done(still=not active)
        if self._unit.job.judged:
            self._unit.job.read_progress(self.publisher.progress())
        self._unit.job.did(self._unit.name, self.checkpoints.holding.line, self._processing.batch)
        if active:
            self._unit.job.spaces(self._processing.batch, self._unit.around.clock_ms())
        self.raising.batch_done()
        self._worked = True

    # -- checkpoints and acks -----------------------------------------------------------------------------------------

    def _checkpoint(self, seen: CopyView) -> None:
        writer = self.checkpoints.checkpointer.writer
        if not seen.commits:
            writer.work()  # a run that was valid before `commit` was taken away is settled
        elif writer.flushing or self.checkpoints.due_ms(seen) <= seen.now_ms:
            with self.publisher.steps.step():
                self.checkpoints.begin(seen, self.moment)
                writer.work()
                if writer.flushing:
                    writer.flushed(self.outputs.acknowledged(seen.batch))

    def moment(self) -> Moment:
        """The content of a marker as of the last batch."""
        return self._processing.moment(self.raising.followed, self.checkpoints.holding.at(self._processing.batch))

    def acked(self, marker: Marker, kind: Kind) -> None:
        """Handles its own valid marker. A refresh is published later, because nothing waits for it."""
        self._skipping.acked(marker)
        self.marked(marker)
        if kind is Kind.SWEEP and self.condition.commits:
            self.publisher.swept(marker, self._unit.around.clock_ms())

    def marked(self, marker: Marker) -> None:
        """Drops data up to the marker, which the checkpoint log holds now."""
        self.outputs.forget(marker.b)
        self.intake.inputs.forget_hashes(marker.b)
        self.intake.cutter.forget(marker.b)
        self.raising.reached(marker)
        self._unit.job.read_progress(self.publisher.progress())

    def jumped(self, marker: Marker) -> None:
        """Continues behind another copy's marker, which the state has reached."""
        self._line.end()
        self._processing.jump(marker)
        self._skipping.reached(marker)
        self.marked(marker)

    def close(self) -> None:
        """Releases its held inputs and leaves the scheduler."""
        self._line.end()
        self.intake.let_go()
        self._unit.around.checkpoints.leave(self._unit.key)
