"""The turns of a copy that has its image: `Running._tasks` lists all that a copy does and when each task is due.

By its flags a copy processes, cuts, checkpoints and trims, or applies another's checkpoints. Source: PROTOCOL 3 to 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from holdfast.schemas.assignments import Flags
from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.operators.catalogue import Build
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.kernel.state.keyed import StateStore
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.checkpoint.policies.policy import Kind
from holdfast.services.worker.checkpoint.restoring import Rebuilt
from holdfast.services.worker.checkpoint.writer import Moment
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.sinks.delivery import Delivery
from holdfast.services.worker.unit.answering import Answering
from holdfast.services.worker.unit.checkpoints import Checkpoints
from holdfast.services.worker.unit.cuts import Cuts
from holdfast.services.worker.unit.intake import Intake
from holdfast.services.worker.unit.outputs import Outputs
from holdfast.services.worker.unit.processing import Processing
from holdfast.services.worker.unit.publishing import ProgressPublisher
from holdfast.services.worker.unit.raising import Raising
from holdfast.services.worker.unit.result_waits import ResultWaits
from holdfast.services.worker.unit.skipping import Skipping
from holdfast.services.worker.unit.steps import Steps
from holdfast.services.worker.unit.tentative import TentativeLine
from holdfast.services.worker.unit.turns import Task, Turns, Watched, never

SLICE_MS = 5.0


class Running:
    """A copy from a restored image on, that of batch `began`. Raises what ends it: StateCorrupted, Divergence, ..."""

    def __init__(
        self,
        job: JobView,
        layout: UnitLayout,
        rebuilt: Rebuilt,
        flags: Flags,
        epoch: int,
        around: HostServices,
        gaps: Mapping[str, int],
        spent: Spent,
        build: Build,
        took_over: bool = False,
    ) -> None:
        self.job, self.layout, self.flags, self._around = job, layout, flags, around
        self._spent, self._key = spent, job.key(layout.unit.name)
        self._awaits_control: bool | None = None
        self.store = StateStore(rebuilt.image, rebuilt.tables, rebuilt.keys)
        self.outputs = Outputs(layout, job, rebuilt.marker, epoch, around=around, spent=spent, failed=self._stir)
        self.intake = Intake(job, layout, rebuilt, around, self._refuse, gaps)
        self._processing = Processing(layout, self.store, rebuilt.marker, self.intake, self.outputs, spent, job, build)
        unit, done, now = layout.unit.name, self._processing, around.clock_ms()
        refuse: Callable[..., None] = lambda *told: self._refuse(self.checkpoints.partition, *told)  # noqa: E731
        self.began, self._steps, self.showing = self.batch, Steps(around.clock_ms, around.cpu_ms), done.showing
        self.checkpoints = Checkpoints(self, job, layout, rebuilt, self.store, around, refuse, now, spent)
        self.cuts = Cuts(self, job, unit, self.intake, around, self.checkpoints.held, spent.edges)
        told = (job, unit, around, done, self.checkpoints, self.outputs, self._steps, self.intake.cutter)
        self._publisher = ProgressPublisher(*told, lambda: self.commits)
        self._waits = ResultWaits(self, job, layout.unit, spent, self.outputs, around)
        self.raising = Raising(self, job, layout, rebuilt.marker, self.intake.cutter, done, self.outputs, around)
        self._answering = done.answers = Answering(self, job, layout, intake=self.intake, around=around)
        self._skipping = Skipping(self, job, unit, rebuilt.marker, done, around, took_over)
        self._line = TentativeLine(self, job, layout, self._processing, self.outputs, around)
        self.turns = Turns(self._tasks(), self._watched())
        self.raising.place(epoch, flags)

    # -- its turns ----------------------------------------------------------------------------------------------------

    def _tasks(self) -> tuple[Task, ...]:
        """All that a copy does, in the order of a turn."""
        return (
            Task("see whether a topic in doubt is the same", never, self.intake.settle_doubts),
            Task("see at which rows code raised", self.raising.due_ms, self.raising.look),
            Task("deliver what has waited long enough", lambda _: self.outputs.delivery.look_ms, self.outputs.look),
            Task("skip what a gap leaves out", self._skipping.due_ms, self._skipping.look),
            Task("ask what users' code awaits", self._answering.due_ms, self._answering.look),
            Task("process", self._process_due, self._process),
            Task("work without what is out", self._line.due_ms, self._line.look),
            Task("ask for records that are cut and do not come", self.cuts.ask_due_ms, self.cuts.ask),
            Task("cut", self.cuts.due_ms, self.cuts.propose),
            Task("checkpoint", self._checkpoint_due, self._checkpoint),
            Task("trim", lambda _: self.checkpoints.trim_due_ms() if self.commits else math.inf, self._trim),
            Task("trim the cut log", self.cuts.trimmer.due_ms, self.cuts.trimmer.look),
            Task("see what retention keeps", self.cuts.retention.due_ms, self.cuts.retention.look),
            Task("apply another copy's checkpoint", self.checkpoints.apply_due_ms, self.checkpoints.apply),
            Task("hold what comes too fast", never, lambda _: self.intake.hold(self.batch + 1, self.suspended)),
            Task("measure how long results take", never, self._waits.look),
            Task("publish progress", self._publisher.due_ms, self._publisher.look),
            Task("end if a frame could not be delivered", never, self.outputs.look_at_frames),
        )

    def _watched(self) -> tuple[Watched, ...]:
        return (
            Watched("acknowledgements", self._awaits_answers, lambda: self.outputs.answers),
            Watched("acks of readers", lambda: self.commits, lambda: self.outputs.retained),
            Watched("a pause", lambda: self.commits, lambda: self.job.rests),
            Watched("users' topics", self._awaits_topics, lambda: (self._around.topics.answered, self.intake.answers)),
        )

    def step(self, now_ms: float) -> bool:
        """Takes a turn: does what can be done now; true if a batch was processed."""
        self._worked, self._awaits_control = False, None
        with self._around.doing.traces.runs(self._key, self.batch + 1):
            self.turns.take(now_ms)
        return self._worked

    def _stir(self) -> None:
        self.turns.stir()

    def _awaits_answers(self) -> bool:
        return self.checkpoints.checkpointer.writer.flushing or self.outputs.full

    def _awaits_topics(self) -> bool:
        return (self.flags.commit and bool(self.intake.feeds)) or self.intake.doubtful or self.intake.keeps_out

    # -- what it reads ------------------------------------------------------------------------------------------------

    def control_positions(self) -> dict[Partition, int]:
        """The unit's checkpoints and, with source tasks, the job's cuts."""
        return {self.checkpoints.partition: self.checkpoints.next_offset} | self.intake.cutter.positions()

    def offer(self, chunk: Chunk) -> None:
        """Takes a chunk of any partition that it reads."""
        self._awaits_control = None
        if chunk.partition == self.checkpoints.partition:
            with self._steps.step():
                for message in chunk.messages:
                    self.checkpoints.read(message.offset(), message.value() or b"")
            self.turns.stir()
        elif self._line.offered(self.intake.offer(chunk, self.batch), chunk.partition):
            self.turns.stir()

    def doubts(self, partition: Partition, cause: str) -> bool:
        """A position of a user's topic is gone: whether it is to be seen first that the topic is the same."""
        if doubtful := self.intake.doubts(partition, cause):
            self.turns.stir()
        return doubtful

    def overfed(self) -> set[Partition]:
        """Inputs that a suspended copy beside a busy input need not be offered any more."""
        return self.intake.overfed() if self.suspended else set()

    def _refuse(self, partition: Partition, offset: int, cause: object) -> None:
        self._around.refusals.refuse(partition, offset, cause, self.job.plan.job)

    # -- flags --------------------------------------------------------------------------------------------------------

    def place(self, epoch: int, flags: Flags) -> None:
        """Does from now on what these flags say."""
        self._awaits_control = None
        self.turns.stir()
        before, self.flags = self.flags, flags
        self.outputs.outbox.epoch = epoch
        self.raising.place(epoch, flags)
        self._skipping.place(flags.commit, flags.commit and not before.commit and not before.process)
        if before.commit and not flags.commit:
            self.checkpoints.checkpointer.writer.abandon()
            self.outputs.keep_rows()
        if before.commit != flags.commit:
            self.intake.cutter.release()
            self.checkpoints.placed(self._around.clock_ms())
        if flags.process and not before.process:
            self.checkpoints.checkpointer.activate(self.batch)
        if flags.send and not before.send:
            self.outputs.send_kept(self.marker)

    def deliver_by(self, delivery: Delivery) -> None:
        """Its outputs are open. Raises StateCorrupted if their position lies before one that a valid marker names."""
        self.outputs.deliver_by(delivery, 0 if self.marker is None else self.marker.position)
        self.turns.stir()

    @property
    def commits(self) -> bool:
        return self.flags.commit and self.outputs.open

    # -- how it stands ------------------------------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        return self._processing.batch

    @property
    def counts(self) -> dict[str, int]:
        return self._processing.counts

    @property
    def ended(self) -> bool:
        return self._processing.ended

    @property
    def marker(self) -> Marker | None:
        """The last valid marker that it has reached."""
        return self.checkpoints.marker

    @property
    def missing(self) -> str:
        """Frames that Kafka has lost, and whose writers have yet to send them again; empty if there are none."""
        return self.intake.inputs.missing

    @property
    def finished(self) -> bool:
        """The end is processed, its marker valid, and the unit goes back to no earlier one."""
        return self.checkpoints.finished

    @property
    def suspended(self) -> bool:
        """True if it processes nothing until its flags change."""
        return not self.flags.process

    @property
    def stopped(self) -> str:
        """Why the job continues only when a person says so; or empty."""
        return self.intake.cutter.stopped

    @property
    def waits(self) -> str:
        """Message about the missing thing that it waits for; or empty."""
        cutter, full = self.intake.cutter, self.job.bound.waits if self.intake.feeds else ""
        found = (self.outputs.delivery.waits, cutter.waits, self._answering.waits, full) if self.flags.commit else ()
        return "; ".join(filter(None, found))

    @property
    def awaits_control(self) -> bool:
        """A cut or a marker is on its way. Asked in each turn of the loop; looked at after news, and after a turn."""
        if self._awaits_control is None:
            follows = self._answering.deciding or (self.flags.process and not self.flags.commit and self.intake.uncut)
            cutter, writer = self.intake.cutter, self.checkpoints.checkpointer.writer
            self._awaits_control = follows or cutter.deciding or writer.deciding or self.raising.waits
        return self._awaits_control

    @property
    def out(self) -> int:
        """The last batch of which all that it brings has left; 0 before its outputs are open."""
        return self.outputs.acknowledged(self.batch) if self.outputs.open else 0

    @property
    def busy(self) -> bool:
        """There is work that needs no input."""
        return self.checkpoints.checkpointer.writer.working or self.data_wait

    # -- processing ---------------------------------------------------------------------------------------------------

    @property
    def data_wait(self) -> bool:
        """A batch is ready to be processed."""
        return self.flags.process and self._processing.ready and not self._skipping.holds

    def _process_due(self, now_ms: float) -> float:
        return self.checkpoints.next_batch_ms(now_ms) if self.data_wait else math.inf

    def _process(self, now_ms: float) -> None:
        began_ms = done_ms = self._around.clock_ms()  # other copies have had their part of this turn
        while self.data_wait and self.checkpoints.next_batch_ms(now_ms) <= now_ms:
            active = self._processing.do_next(self.flags.send, self.raising.known(self.batch + 1))
            if not self.undecided:
                self.batch_done(active)
            done_ms = self._around.clock_ms()
            if done_ms - began_ms > SLICE_MS:
                break
            self._around.doing.traces.runs(self._key, self.batch + 1)
        if self.ended:
            self.outputs.delivery.hurry()
        self._spent.process_ms += done_ms - began_ms
        self.raising.look(now_ms)

    def batch_done(self, active: bool) -> None:
        """active: it brought rows, made any, or changed the state."""
        self.checkpoints.batch_done(still=not active)
        if self.job.judged:
            self.job.read_progress(self._publisher.progress())
        self.job.did(self.layout.unit.name, self.checkpoints.holding.line, self.batch)
        if active:
            self.job.spaces(self.batch, self._around.clock_ms())
        self.raising.batch_done()
        self._worked = True

    @property
    def undecided(self) -> bool:
        """The state holds a batch that is not done, as code raised in it, or lacks some that are to be skipped."""
        return self._processing.held is not None or self._skipping.holds

    # -- checkpoints and acks -----------------------------------------------------------------------------------------

    def _checkpoint_due(self, now_ms: float) -> float:
        return self.checkpoints.due_ms(now_ms, self.commits)

    def _checkpoint(self, now_ms: float) -> None:
        writer = self.checkpoints.checkpointer.writer
        if not self.commits:
            writer.work()  # what was valid when `commit` went has still to be settled
        elif writer.flushing or self._checkpoint_due(now_ms) <= now_ms:
            with self._steps.step():
                self.checkpoints.begin(now_ms)
                writer.work()
                if writer.flushing:
                    writer.flushed(self.outputs.acknowledged(self.batch))

    def moment(self) -> Moment:
        """A marker's statements about it as of its batch."""
        return self._processing.moment(self.raising.followed, self.checkpoints.holding.at(self.batch))

    def _trim(self, now_ms: float) -> None:
        if self.commits:
            self.checkpoints.trim(now_ms)

    def acked(self, marker: Marker, kind: Kind) -> None:
        """Its own marker was read back as valid. A refresh is published when it suits: nobody waits for it."""
        self._skipping.acked(marker)
        self.marked(marker)
        if kind is Kind.SWEEP and self.commits:
            self._publisher.swept(marker, self._around.clock_ms())

    def marked(self, marker: Marker) -> None:
        """Forgets what lies at or below the marker: it can be read from the checkpoint log."""
        self.outputs.forget(marker.b)
        self.intake.inputs.forget_hashes(marker.b)
        self.intake.cutter.forget(marker.b)
        self.raising.reached(marker)
        self.job.read_progress(self._publisher.progress())

    def jumped(self, marker: Marker) -> None:
        """The state is as of another copy's marker, which is ahead: continue from there."""
        self._line.end()
        self._processing.jump(marker)
        self._skipping.reached(marker)
        self.marked(marker)

    def publish_end(self) -> None:
        """The end is processed and its marker valid: if so, that is published once."""
        self._publisher.publish_end()

    def close(self) -> None:
        """Others may read what it holds back, and its worker schedules no checkpoint of it any more."""
        self._line.end()
        self.intake.let_go()
        self.checkpoints.close()
