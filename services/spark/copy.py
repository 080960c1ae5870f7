"""The shell of one copy of a Spark unit, which carries out the actions of its lifecycle.

Source: PROTOCOL 3, 8 and 12. The host's loop takes its turns; nothing here blocks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from functools import partial

from holdfast.schemas.assignments import Flags, unit_key
from holdfast.schemas.commits import Commit, Fence
from holdfast.schemas.costs import Costs
from holdfast.schemas.events import Event as Happened
from holdfast.schemas.heartbeats import CopyState
from holdfast.schemas.plans import REAL_TIME, Plan, SparkPlan
from holdfast.schemas.progress import Progress
from holdfast.schemas.progress import encode as encode_progress
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.hosting.lags import Taken
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import FrameCodec
from holdfast.services.kernel.codecs.marked import lanes
from holdfast.services.kernel.errors import Fenced, HoldfastError, PositionGone, StateCorrupted
from holdfast.services.log.late.cut_logs import commit_base
from holdfast.services.spark.commits import Commits
from holdfast.services.spark.controls import Controls
from holdfast.services.spark.core import lifecycle
from holdfast.services.spark.core.lifecycle import LEADING, Action, Lifecycle, State
from holdfast.services.spark.core.taking_over import Verdict, verdict
from holdfast.services.spark.engine import (
    BatchAsked,
    Committed,
    Deploy,
    Discard,
    Engine,
    EngineEvent,
    Output,
    Refused,
    Rehearse,
    Run,
    RunEnded,
    Task,
    Write,
)
from holdfast.services.spark.spent import Spent
from holdfast.services.spark.surroundings import DriverServices

_log = get_logger()


class SparkCopy:
    """A copy of one Spark unit, hosted by this driver."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkPlan,
        topics: JobTopics,
        around: DriverServices,
        engine: Engine,
        skipped: Collection[int],
    ) -> None:
        self.plan = plan
        self.spark = spark
        self._topics = topics
        self._around = around
        self._engine = engine
        self.core = Lifecycle(unit_key(plan.job, plan.generation, spark.unit))
        self._skipped = skipped
        self._commits: Commits | None = None
        self._controls: Controls | None = None
        self._real_time = spark.mode == REAL_TIME
        self._tasks = self._attempts = 0
        self._fencing_ms: int | None = None
        self._ends: dict[int, int] | None = None
        self._spent = Spent()
        self._begun_ms = 0.0

    # -- from the host ------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.core.epoch

    @property
    def commits_topic(self) -> str:
        return self._topics.commits(self.spark.operator)

    @property
    def leads(self) -> bool:
        """True if the last assignment makes it the leader and its job has not ended."""
        return self.core.flags.commit and self.core.state is not State.ENDED

    @property
    def next_deadline(self) -> float:
        """The clock time of the next turn unless an event comes before."""
        return self.core.next_deadline

    def place(self, epoch: int, flags: Flags) -> None:
        self._handle(lifecycle.Placed(epoch, flags))

    def unplace(self) -> None:
        self._handle(lifecycle.Unplaced())

    def skip(self, offsets: Collection[int]) -> None:
        """Restarts the copy without these records of the commit log, which a person has skipped."""
        if offsets != self._skipped:
            self._skipped = offsets
            self._handle(lifecycle.Repaired())

    def step(self, now_ms: float) -> None:
        """Takes a turn: new records, then events of the engine, then due work."""
        try:
            self._follow()
        except PositionGone:  # the copy was left behind by a trim
            self._handle(lifecycle.Repaired())
        except HoldfastError as error:
            self._handle(lifecycle.Broke(f"{type(error).__name__}: {error}"))
        while (event := self._engine.poll()) is not None:
            self._take(event)
        if now_ms >= self.core.next_deadline:
            self._handle(lifecycle.Due())

    def report(self) -> CopyState:
        """The state for the heartbeat; its batch is the last valid micro-batch that the copy has read."""
        k = 0 if self._commits is None else self._commits.fold.k
        return CopyState(self.core.unit, self.core.epoch, self.core.reported, batch=k, error=self.core.error, durable=k)

    def costs(self) -> Costs:
        return self._spent.costs(self.core.unit, self._around.clock_ms())

    def taken(self) -> Iterator[Taken]:
        """Its positions in users' topics; none in real-time mode."""
        if self._commits is None or self._real_time:
            return
        stop = self._commits.fold.stop
        for one in self.spark.inputs:
            if one.source:
                yield Taken(self.core.unit, one.source, one.topic, stop[one.topic])

    # -- what comes ---------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        commits, controls = self._commits, self._controls
        if commits is None:
            return
        if commits.follow():
            self._handle(lifecycle.BatchRead())
        if self.core.state in LEADING and commits.fold.epoch > self.core.leading:
            self._handle(lifecycle.Superseded(f"Fenced: epoch {commits.fold.epoch} has begun"))
        if controls is None or self.core.state not in LEADING:
            return
        controls.follow()
        if controls.asked is not self.core.asked:
            self._handle(lifecycle.Controlled(controls.asked))
        if self.core.state is State.ARRIVING and controls.input_ended:
            self._handle(lifecycle.InputEnded())

    def _take(self, event: EngineEvent) -> None:
        now_ms = self._around.clock_ms()
        match event:
            case BatchAsked(batch):
                self._spent.batch_ms = now_ms
                self._judge(batch)
            case Output():
                self._spent.batch_written(event, now_ms)
                self._commit(event)
            case lifecycle.Deployed():
                self._spent.deploy_ms = round(now_ms - self._begun_ms, 1)
                self._handle(event)
            case RunEnded(ends):
                self._ends = ends
                self._handle(lifecycle.RowsHeld() if self._holds else lifecycle.RunDone())
            case lifecycle.RunFailed(cause, come):
                _log.warning("query failed", unit=self.core.unit, cause=cause)
                self._handle(lifecycle.RunFailed(cause, (*come, self._open.fold.k)))
            case _:
                self._handle(event)

    @property
    def _open(self) -> Commits:
        assert self._commits is not None, f"{self.core.unit}: the commit log is read from DEPLOY to CLOSE"
        return self._commits

    @property
    def _holds(self) -> bool:
        """True if Spark holds rows that a watermark at the end of time releases."""
        return not self._real_time and self.spark.holds and self.spark.closes and self._open.fold.k > 0

    def _judge(self, batch: int) -> None:
        fold = self._open.fold
        match verdict(fold, self.core.leading, batch):
            case Verdict.DISCARD:
                self._engine.answer(Discard())
            case Verdict.COMMIT:
                self._attempts += 1
                self._engine.answer(Write(fold.k + 1, self._attempts, copy.copy(fold)))
            case Verdict.STOP:
                cause = f"batch {batch} of epoch {self.core.leading} cannot follow {fold.k} of epoch {fold.epoch}"
                self._engine.answer(Refused(cause))
                self._handle(lifecycle.Superseded(f"Fenced: {cause}"))

    def _commit(self, output: Output) -> None:
        record = self._next_commit(
            attempt=output.attempt,
            k=output.k,
            stop=output.stop,
            frames=output.frames,
            watermark=output.watermark,
            records=output.records,
            taken=dict(output.taken),
            dead=output.dead,
            heard=output.heard,
            final=self.core.state is State.CLOSING,
        )
        task = self._tasks

        def read_back(error: Exception | None) -> None:
            if task != self._tasks:
                return  # the run has ended; the fold knows whether the commit counts
            self._engine.answer(Committed() if error is None else Refused(str(error)))
            if error is None:
                self._spent.marked_ms = self._around.clock_ms()
            if isinstance(error, Fenced):
                self._handle(lifecycle.Superseded(f"Fenced: {error}"))
            elif error is None and record.final:
                self._handle(lifecycle.EndRead())

        self._open.propose(record, read_back)

    # -- actions ------------------------------------------------------------------------------------------------------

    def _handle(self, event: lifecycle.Event) -> None:
        """Carries out the actions for an event. An event missing in the table ends the copy with its story."""
        now_ms = self._around.clock_ms()
        try:
            actions = self.core.at(event, now_ms)
        except lifecycle.Unlisted as error:
            actions = self.core.at(lifecycle.Broke(str(error)), now_ms)
        if isinstance(event, lifecycle.Superseded | lifecycle.Broke) and self.core.error:
            _log.warning(self.core.reported, unit=self.core.unit, epoch=self.core.epoch, cause=self.core.error)
        for action in actions:
            _DO[action](self)

    def _begin(self, task: Task) -> None:
        self._tasks += 1
        self._begun_ms = self._around.clock_ms()
        self._engine.begin(task)

    def _deploy(self) -> None:
        self._close_logs()
        spark, topic, log = self.spark, self.commits_topic, self._around.log
        first = {topic: dict.fromkeys(lanes(spark.first), 0)} if self._real_time else spark.first_positions
        self._commits = Commits(
            log,
            topic,
            first,
            f"{self.plan.job}-{spark.operator}",
            fits=FrameCodec(stream_schema(spark.output)).check,
            refuse=lambda at, offset, cause: self._around.refuse(at, offset, cause, self.plan.job),
            skipped=self._skipped,
            begins=partial(commit_base, log, Partition(self._topics.cuts, 0), spark.operator, Partition(topic, 0)),
        )
        self._begin(Deploy())

    def _fence(self) -> None:
        epoch, self._fencing_ms = self.core.leading, self._around.time_ms()
        if self._controls is not None:
            self._controls.close()
        self._controls = Controls(self._around.log, self.plan, self.spark, self._topics)

        def read_back(error: Exception | None) -> None:
            if self.core.state is not State.FENCING or self.core.leading != epoch:
                return
            if error is None:
                self._handle(lifecycle.EndRead() if self._open.fold.ended else lifecycle.FenceRead())
            elif isinstance(error, Fenced):
                self._handle(lifecycle.Superseded(f"Fenced: {error}"))
            elif isinstance(error, StateCorrupted):
                self._handle(lifecycle.Broke(f"StateCorrupted: {error}"))
            else:
                self._handle(lifecycle.NotAppended(str(error)))

        self._open.propose(Fence(epoch, self._around.author.next(), self._fencing_ms), read_back)

    def _run(self, until_now: bool = False, closing: bool = False) -> None:
        self._begin(Run(self.core.leading, copy.copy(self._open.fold), until_now, closing))

    def _stop(self) -> None:
        self._tasks += 1
        self._engine.rest()

    def _commit_last(self) -> None:
        fold = self._open.fold
        stop = fold.stop if self._ends is None else {self.commits_topic: self._ends}
        record = self._next_commit(
            attempt=0, k=fold.k + 1, stop=stop, frames=(), watermark=fold.watermark, heard=fold.heard, final=True
        )

        def read_back(error: Exception | None) -> None:
            if self.core.state is not State.CLOSING:
                return
            if error is None:
                self._handle(lifecycle.EndRead())
            elif isinstance(error, Fenced):
                self._handle(lifecycle.Superseded(f"Fenced: {error}"))
            elif isinstance(error, StateCorrupted):
                self._handle(lifecycle.RunFailed(f"StateCorrupted: {error}", (fold.k,)))
            else:
                self._handle(lifecycle.NotAppended(str(error)))

        self._open.propose(record, read_back)

    def _next_commit(self, *, attempt: int, final: bool, **of_batch: object) -> Commit:
        fold = self._open.fold
        return Commit(
            epoch=self.core.leading,
            attempt=attempt,
            start=fold.stop,
            id=self._around.author.next(),
            prev=fold.prev,
            final=final,
            time_ms=self._around.time_ms(),
            **of_batch,  # type: ignore[arg-type]
        )

    def _publish_end(self) -> None:
        """Publishes that the unit has ended, again until Kafka has it, because the controller waits for it."""
        k = self._open.fold.k
        record = encode_progress(Progress(self.spark.unit, k, k, ended=True))

        def answered(error: Exception | None, offset: int) -> None:
            if error is not None and self.core.state is State.ENDED:
                self._publish_end()

        partition = Partition(self._topics.progress, 0)
        self._around.appender.append(partition, record, key=self.spark.unit.encode(), done=answered)

    def _publish_takeover(self) -> None:
        if self._fencing_ms is not None:
            phases_ms = {"activation": float(self._around.time_ms() - self._fencing_ms)}
            self._fencing_ms, self._spent.open_ms = None, phases_ms["activation"]
            self._around.happened(
                Happened(
                    self._around.time_ms(), "unit-active", self.plan.job, self.spark.unit, epoch=self.core.leading,
                    phases_ms=phases_ms,
                )
            )  # fmt: skip

    def _close_logs(self) -> None:
        if self._controls is not None:
            self._controls.close()
        if self._commits is not None:
            self._commits.close()
        self._commits = self._controls = None

    def _close(self) -> None:
        self._close_logs()
        self._engine.close()


_DO: dict[Action, Callable[[SparkCopy], None]] = {
    Action.DEPLOY: SparkCopy._deploy,
    Action.REHEARSE: lambda self: self._begin(Rehearse()),
    Action.FENCE: SparkCopy._fence,
    Action.START: SparkCopy._run,
    Action.STOP: SparkCopy._stop,
    Action.FINISH: lambda self: self._run(until_now=True),
    Action.CLOSE_WINDOWS: lambda self: self._run(until_now=True, closing=True),
    Action.COMMIT_LAST: SparkCopy._commit_last,
    Action.PUBLISH_END: SparkCopy._publish_end,
    Action.TAKEN_OVER: SparkCopy._publish_takeover,
    Action.CLOSE: SparkCopy._close,
}
