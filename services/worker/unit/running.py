"""A unit with an image: takes batches that are ready, processes them, sends, and asks for cuts, checkpoints and trims;
or sleeps, holds its inputs, and follows the checkpoints of the copy that works. Its flags say which.

What a copy does in a turn, and when its next turn is due, is one list: `Running._tasks`. Source: PROTOCOL 3, 4, 6 to 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from schemas.assignments import Flags
from schemas.checkpoints import Marker
from schemas.cuts import END_WATERMARK, NO_WATERMARK
from schemas.progress import Progress
from schemas.topics import Partition
from services.kernel.dataflow.unit import Unit
from services.kernel.errors import StateCorrupted
from services.kernel.planning.layout import UnitLayout
from services.kernel.state.keyed import StateStore
from services.log.protocol import Chunk
from services.worker.checkpoint.checkpointer import Moment
from services.worker.checkpoint.policies.policy import Kind
from services.worker.checkpoint.restoring import Rebuilt
from services.worker.host.job import JobView
from services.worker.host.surroundings import Surroundings
from services.worker.sinks.delivery import Delivery
from services.worker.sources.missing import Missing
from services.worker.unit.checkpoints import Checkpoints
from services.worker.unit.intake import Intake
from services.worker.unit.outputs import Outputs
from services.worker.unit.steps import Steps
from services.worker.unit.telling import Telling
from services.worker.unit.turns import Task, Turns, Watched, never

SLICE_MS = 5.0
DROPPED = "dropped/"
"""Begins the names of counts of rows dropped as late; a source's name follows."""


class Running:
    """One copy from a restored image on. Raises what ends it: StateCorrupted, Divergence, InvalidRecord."""

    def __init__(
        self,
        job: JobView,
        layout: UnitLayout,
        rebuilt: Rebuilt,
        flags: Flags,
        epoch: int,
        around: Surroundings,
        gaps: Mapping[str, int],
    ) -> None:
        marker = rebuilt.marker
        self.job, self.layout, self._flags, self._around = job, layout, flags, around
        self._name = layout.unit.name
        self.batch = 0 if marker is None else marker.b
        self.counts = {"records": 0, "late": 0, "dead": 0, "lost": 0} | (marker.counts if marker else {})
        self._store = StateStore(rebuilt.image, () if marker is None else marker.tables)
        self._watermarks = {task.name: NO_WATERMARK for task in layout.tasks} | (marker.watermarks if marker else {})
        self._unit: Unit | None = None
        self.outputs = Outputs(layout, job.number, epoch, around.appender)
        self.intake = Intake(job, layout, rebuilt, around, self._refuse, gaps)
        now = around.clock_ms()
        self.checkpoints = Checkpoints(self, job, layout, rebuilt, self._store, around, self._refuse_checkpoint, now)
        self._telling = Telling(Partition(job.topics.progress, 0), around.appender, now)
        self._missing = Missing(around.log, around.restores, job.plan.job)
        self.processed_ms = 0.0
        self._steps = Steps(around.clock_ms, around.cpu_ms)
        self.turns = Turns(self._tasks(), self._watched())

    # -- its turns ----------------------------------------------------------------------------------------------------

    def _tasks(self) -> tuple[Task, ...]:
        """All that a copy does, in the order of a turn."""
        return (
            Task("see whether a topic in doubt is the same", never, self._settle_doubts),
            Task("look whether a sink's topic is back", lambda _: self.outputs.look_ms, self.outputs.look),
            Task("process", self._process_due, self._process),
            Task("ask for records that are cut and do not come", self._missing_due, self._look_for_missing),
            Task("cut", self._cut_due, self._cut),
            Task("checkpoint", self._checkpoint_due, self._checkpoint),
            Task("trim", self._trim_due, self._trim),
            Task("apply another copy's checkpoint", self.checkpoints.apply_due_ms, self.checkpoints.apply),
            Task("hold what comes too fast", never, self._hold),
            Task("publish progress", self._progress_due, self._publish_progress),
            Task("end if a frame could not be delivered", never, self._look_at_frames),
        )

    def _watched(self) -> tuple[Watched, ...]:
        """What Kafka answers comes between two turns, and is no record."""
        return (
            Watched("acknowledgements", self._awaits_answers, lambda: self.outputs.answers),
            Watched("a frame refused", lambda: True, lambda: self.outputs.error),
            Watched("users' topics", self._awaits_topics, lambda: self._around.topics.answered),
        )

    def step(self, now_ms: float) -> bool:
        """One turn: does what can be done now; True if a batch was processed."""
        self._worked = False
        self.turns.take(now_ms)
        return self._worked

    def _awaits_answers(self) -> bool:
        return self.checkpoints.checkpointer.flushing or self.outputs.full

    def _awaits_topics(self) -> bool:
        return self._flags.commit or self.intake.doubtful

    # -- what it reads ------------------------------------------------------------------------------------------------

    def control_positions(self) -> dict[Partition, int]:
        """The unit's checkpoints and, with source tasks, the job's cuts."""
        return {self.checkpoints.partition: self.checkpoints.next_offset} | self.intake.cutter.positions()

    def offer(self, chunk: Chunk) -> None:
        """Takes a chunk of any partition that it reads."""
        if chunk.partition == self.checkpoints.partition:
            with self._steps.step():
                for message in chunk.messages:
                    self.checkpoints.read(message.offset(), message.value() or b"")
            self.turns.stir()
        elif self.intake.offer(chunk, self.batch):
            self.turns.stir()

    def doubts(self, partition: Partition, cause: str) -> bool:
        """A position of a user's topic is gone: whether it is to be seen first that the topic is the same."""
        doubtful = self.intake.doubts(partition, cause)
        if doubtful:
            self.turns.stir()
        return doubtful

    def overfed(self) -> set[Partition]:
        """What a copy that sleeps beside a busy input need not be offered any more."""
        return self.intake.overfed() if self.asleep else set()

    def _settle_doubts(self, now_ms: float) -> None:
        if self.intake.doubtful:
            self.intake.settle_doubts(now_ms)

    def _hold(self, now_ms: float) -> None:
        self.intake.hold(self.batch + 1)

    def _refuse(self, partition: Partition, offset: int, cause: object) -> None:
        """A record of the job's own topics that is none."""
        self._around.refusals.refuse(partition, offset, cause, self.job.plan.job)

    def _refuse_checkpoint(self, offset: int, cause: object) -> None:
        self._refuse(self.checkpoints.partition, offset, cause)

    # -- flags --------------------------------------------------------------------------------------------------------

    def place(self, epoch: int, flags: Flags) -> None:
        """Does from now on what these flags say."""
        self.turns.stir()
        before, self._flags = self._flags, flags
        self.outputs.epoch(epoch)
        if before.commit and not flags.commit:
            self.checkpoints.checkpointer.abandon()
            self.outputs.keep_rows()
        if before.commit != flags.commit:
            self.intake.cutter.release()
            self.checkpoints.placed(self._around.clock_ms())
        if flags.process and not before.process:
            self.checkpoints.checkpointer.awaken(self.batch)
        if flags.send and not before.send:
            self.outputs.send_kept()

    def deliver_by(self, delivery: Delivery) -> None:
        """Its outputs are open. Raises StateCorrupted if their position lies before one that a valid marker names."""
        self.outputs.deliver_by(delivery, 0 if self.marker is None else self.marker.position)
        self.turns.stir()

    @property
    def _commits(self) -> bool:
        return self._flags.commit and self.outputs.open

    # -- how it stands ------------------------------------------------------------------------------------------------

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
        """The end is processed and its marker valid."""
        return self.marker is not None and self.marker.ended

    @property
    def asleep(self) -> bool:
        """It processes nothing, and waits to be told to."""
        return not self._flags.process

    @property
    def stopped(self) -> str:
        """Why the job goes on only when a person says so; or empty."""
        return self.intake.cutter.stopped

    @property
    def waits(self) -> str:
        """What it waits for that is not there; or empty."""
        return "; ".join(filter(None, (self.outputs.waits, self.intake.cutter.waits))) if self._flags.commit else ""

    @property
    def awaits_control(self) -> bool:
        """A cut, our own or another copy's, or a marker is on its way."""
        follows = self._flags.process and not self._flags.commit and self.intake.uncut
        return follows or self.intake.cutter.deciding or self.checkpoints.checkpointer.deciding

    @property
    def out(self) -> int:
        """What has left it so far: transactions committed, or else batches whose frames are acknowledged."""
        return self.outputs.out

    @property
    def busy(self) -> bool:
        """There is work that needs no input."""
        return self.checkpoints.checkpointer.working or self.data_wait

    @property
    def watermarks(self) -> dict[str, int]:
        """Of each task's inputs, after the last batch done."""
        return self._watermarks if self._unit is None else self._unit.watermarks

    @property
    def watermark(self) -> int:
        return min(self.watermarks.values(), default=NO_WATERMARK)

    @property
    def ended(self) -> bool:
        """The end of all its inputs is processed."""
        return all(watermark == END_WATERMARK for watermark in self.watermarks.values())

    # -- processing ---------------------------------------------------------------------------------------------------

    @property
    def data_wait(self) -> bool:
        """A batch is ready to be processed."""
        return self._flags.process and not self.ended and self.intake.ready(self.batch + 1) and not self.outputs.full

    def _process_due(self, now_ms: float) -> float:
        return now_ms if self.data_wait else math.inf

    def _process(self, now_ms: float) -> None:
        done_ms = now_ms
        while self.data_wait:
            self._one_batch(self.batch + 1)
            self._worked = True
            done_ms = self._around.clock_ms()
            if done_ms - now_ms > SLICE_MS:
                break
        self.processed_ms += done_ms - now_ms

    def _one_batch(self, batch: int) -> None:
        if self._unit is None:
            self._unit = Unit(self.layout, self._store, self._watermarks)
        taken = self.intake.take(batch)
        produced = self._unit.process(batch, taken.sources, taken.frames)
        self.batch = batch
        dead = [*taken.dead, *produced.dead]
        rows = any(fed.rows.height for brought in (taken.sources, taken.frames) for fed in brought.values())
        self.checkpoints.batch_done(still=not (rows or dead or self._store.changed))
        self.counts["records"] += taken.records
        self.counts["lost"] += taken.lost
        self.counts["late"] += produced.late
        self.counts["dead"] += len(dead)
        for source, count in produced.dropped.items():
            if count:
                self.counts[DROPPED + source] = self.counts.get(DROPPED + source, 0) + count
        self.outputs.take(batch, produced, dead, self._flags.send)
        self.job.read_progress(self._progress())

    def _look_at_frames(self, now_ms: float) -> None:
        if self.outputs.error is not None:
            raise StateCorrupted(f"a frame could not be delivered: {self.outputs.error}")

    # -- cuts ---------------------------------------------------------------------------------------------------------

    @property
    def _cuts_here(self) -> bool:
        return bool(self.intake.feeds) and self._flags.process

    def _missing_due(self, now_ms: float) -> float:
        return self._missing.next_deadline if self._cuts_here else math.inf

    def _look_for_missing(self, now_ms: float) -> None:
        if self._cuts_here:
            self._missing.look(self.batch + 1, lambda: self.intake.lacking(self.batch + 1), now_ms)

    def _cut_due(self, now_ms: float) -> float:
        return now_ms + self.intake.cutter.wait_ms(now_ms) if self._flags.commit else math.inf

    def _cut(self, now_ms: float) -> None:
        if self._flags.commit:  # also while the outputs are being opened: the cut log decides, not they
            self.intake.cutter.propose(now_ms)

    # -- checkpoints and acks -----------------------------------------------------------------------------------------

    def _checkpoint_due(self, now_ms: float) -> float:
        return self.checkpoints.due_ms(now_ms, self._commits)

    def _checkpoint(self, now_ms: float) -> None:
        checkpointer = self.checkpoints.checkpointer
        if not self._commits:
            checkpointer.work()  # what was valid when `commit` went has still to be settled
            return
        with self._steps.step():
            self.checkpoints.begin(now_ms)
            checkpointer.work()
            checkpointer.flushed(self.outputs.acknowledged(self.batch))

    def moment(self) -> Moment:
        """What a marker says of it as of its batch."""
        return Moment(
            batch=self.batch,
            watermarks=dict(self.watermarks),
            positions=self.intake.inputs.positions(),
            cuts=self.intake.cutter.as_of(self.batch),
            counts=dict(self.counts),
            ended=self.ended,
            position=self.outputs.position,
        )

    def _trim_due(self, now_ms: float) -> float:
        return self.checkpoints.trim_due_ms() if self._commits else math.inf

    def _trim(self, now_ms: float) -> None:
        if self._commits:
            self.checkpoints.trim(now_ms)

    def acked(self, marker: Marker, kind: Kind) -> None:
        """Its own marker was read back as valid. A refresh is published when it suits: nobody waits for it."""
        self.marked(marker)
        if kind is Kind.SWEEP and self._commits:
            self._publish(self._around.clock_ms())

    def marked(self, marker: Marker) -> None:
        """What lies at or below the marker can be read from the checkpoint log: it needs no keeping."""
        self.outputs.forget(marker.b)
        self.intake.inputs.forget_hashes(marker.b)

    def jumped(self, marker: Marker) -> None:
        """The state is as of another copy's marker, which is ahead: go on from there."""
        self.batch = marker.b
        self.counts |= marker.counts
        self._unit, self._watermarks = None, self._watermarks | marker.watermarks
        self.intake.skip(marker)
        self.marked(marker)

    # -- progress -----------------------------------------------------------------------------------------------------

    def _progress_due(self, now_ms: float) -> float:
        return self._telling.due_ms(self.batch) if self._commits else math.inf

    def _publish_progress(self, now_ms: float) -> None:
        """A copy without `commit` publishes nothing; once it has `commit`, it publishes all that it has done."""
        if self._commits and now_ms >= self._telling.due_ms(self.batch):
            self._publish(now_ms)

    def _publish(self, now_ms: float) -> None:
        self._telling.tell(self._progress(), now_ms)
        self._steps.restart()

    def tell_end(self) -> None:
        """Publishes that the unit has ended, with `commit` or without: the author of the last marker may have lost it,
        or died, before it read the marker back, and the leader now has nothing left to do.
        """
        self._telling.append(self._progress())

    def _progress(self) -> Progress:
        marker = self.marker
        return Progress(
            unit=self._name,
            processed=self.batch,
            acked=0 if marker is None else marker.b,
            positions=() if marker is None else tuple(marker.positions),
            watermark=self.watermark,
            records=self.counts["records"],
            late=self.counts["late"],
            dead=self.counts["dead"] + self.outputs.aside,
            lost=self.counts["lost"],
            step_ms=round(self._steps.longest_ms, 3),
            step_cpu_ms=round(self._steps.longest_cpu_ms, 3),
            ended=self.finished,
            late_dropped=self.late_dropped,
        )

    @property
    def late_dropped(self) -> dict[str, int]:
        """Rows that were dropped as late up to its batch, by source."""
        return {name.removeprefix(DROPPED): n for name, n in self.counts.items() if name.startswith(DROPPED)}

    def close(self) -> None:
        """Others may read what it holds back, and its worker schedules no checkpoint of it any more."""
        self.intake.let_go()
        self.checkpoints.close()

    def forget(self) -> None:
        """Lets go of its state: what is left of a closed copy refers to itself, and is not collected."""
        self._store.release()
