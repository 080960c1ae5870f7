"""The copy of a Spark unit on one driver process: it stands by, or runs the query, as the last assignment says.

Source: PROTOCOL 8 and 12. A thread for each: starting a session or a query takes seconds.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from schemas.assignments import Flags, unit_key
from schemas.commits import Commit, Fence
from schemas.heartbeats import CopyState
from schemas.plans import REAL_TIME, Plan, SparkPlan
from schemas.progress import Progress
from schemas.progress import encode as encode_progress
from schemas.topics import JobTopics, Partition
from services.kernel.codecs.fields import stream_schema
from services.kernel.codecs.frames import FrameCodec
from services.kernel.codecs.marked import lanes
from services.kernel.errors import Fenced
from services.kernel.logs.decided import Author
from services.log.protocol import Log
from services.spark.checkpoint import Checkpoints, plan_last_batch
from services.spark.commits import Commits
from services.spark.controls import Controls
from services.spark.core.taking_over import takeover
from services.spark.faults import cause_of
from services.spark.query import Query
from services.spark.real_time import RealTimeQuery
from services.spark.rehearsal import AGAIN_S, Rehearsal

LOOK_S = 0.05
MAX_FAILURES = 3
"""Failures in a row, without a commit between them, before the job reports the cause."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Around:
    """What a copy needs of its process. session: opens Spark's, once for all. checkpoints: root of all jobs'; scratch:
    this driver's own. refuse: called with a job's record that does not fit: where it lies, why, and the job."""

    log: Log
    bootstrap_servers: str
    incarnation: str
    checkpoints: Path
    scratch: Path
    allow: list[str] | None
    session: Callable[[], SparkSession]
    time_ms: Callable[[], int]
    happened: Callable[[str, str, int, str, dict[str, float]], None]
    refuse: Callable[[Partition, int, str, str], None]


class Stop(Exception):
    """The copy is to do something else."""


class Driver:
    """Hosts one operator. state, as heartbeats say it: deploying, synced, opening, running, ended, fenced, failed."""

    def __init__(
        self, plan: Plan, spark: SparkPlan, topics: JobTopics, around: Around, skipped: Collection[int]
    ) -> None:
        self.plan, self.spark, self._topics, self._around = plan, spark, topics, around
        self.state, self.error, self.epoch = "deploying", "", 0
        self._flags = Flags(commit=False)
        self._charge = self._leading = 0  # epochs: of the record that made it the leader, of the one it acts on
        self._changed = threading.Condition()
        self._closed = False
        self._skipped = skipped
        self._idle = math.inf  # a later micro-batch shows that there are records to rehearse with, as there were none
        self._author = Author(around.incarnation)
        self._commits: Commits | None = None
        self._real_time = spark.mode == REAL_TIME
        # When micro-batches are rehearsed, on the clock that only counts; 0: they never were.
        self._due = math.inf if self._real_time else 0.0
        root = around.checkpoints / f"{plan.job}.{plan.generation}" / spark.operator
        self._checkpoints = Checkpoints(root)
        self._thread = threading.Thread(target=self._work, name=f"spark {spark.operator}", daemon=True)
        self._thread.start()

    @property
    def commits_topic(self) -> str:
        return self._topics.commits(self.spark.operator)

    # -- from the host ------------------------------------------------------------------------------------------------

    def place(self, epoch: int, flags: Flags) -> None:
        """From a valid assignment."""
        with self._changed:
            if epoch > self.epoch:
                if flags.commit and not self._flags.commit:
                    self._charge = epoch
                self.epoch, self._flags = epoch, flags
                if self.state in ("fenced", "failed"):
                    self.state, self.error = "deploying", ""
                self._changed.notify_all()

    def skip(self, offsets: Collection[int]) -> None:
        """Records of the commit log that a person has skipped: the driver restarts without them."""
        with self._changed:
            if offsets != self._skipped:
                self._skipped = offsets
                self._changed.notify_all()

    @property
    def leads(self) -> bool:
        """The last assignment makes it the leader, and its job has not ended."""
        return self._flags.commit and self.state != "ended"

    def unplace(self) -> None:
        """Ends it; its query is stopped in its own thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def report(self) -> CopyState:
        """For the heartbeat; batch: the last valid micro-batch that it knows."""
        k = 0 if self._commits is None else self._commits.fold.k
        unit = unit_key(self.plan.job, self.plan.generation, self.spark.unit)
        return CopyState(unit, self.epoch, self.state, batch=k, error=self.error, durable=k)

    # -- its thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._closed:
            try:
                self._turn()
            except Stop:
                continue
            except Exception as error:
                self._fail(error)
        if self._commits is not None:
            self._commits.close()

    def _turn(self) -> None:
        """One assignment, from its beginning to the next."""
        session = self._around.session()
        commits = self._commits = self._open_commits()
        with self._changed:
            epoch, active, self._leading = self.epoch, self._flags.commit, self._charge
            self.state = "opening" if active else "deploying" if self._due == 0 else "synced"
        if active:
            self._lead(session, commits, epoch)
        while not self._closed and self.epoch == epoch and self._skipped == commits.skipped:
            if not active and (time.monotonic() >= self._due or commits.fold.k > self._idle):
                self._rehearse(session, commits, epoch)
            commits.follow(LOOK_S)

    def _open_commits(self) -> Commits:
        """Anew once other records are passed over."""
        known, skipped = self._commits, self._skipped
        if known is not None and known.skipped == skipped:
            return known
        if known is not None:
            known.close()
        topic = self.commits_topic
        lanes_first = {topic: dict.fromkeys(lanes(self.spark.first), 0)}
        return Commits(
            self._around.log,
            topic,
            lanes_first if self._real_time else self.spark.first_positions,
            f"{self.plan.job}-{self.spark.operator}",
            fits=FrameCodec(stream_schema(self.spark.output)).check,
            refuse=lambda at, offset, cause: self._around.refuse(at, offset, cause, self.plan.job),
            skipped=skipped,
        )

    def _rehearse(self, session: SparkSession, commits: Commits, epoch: int) -> None:
        name = f"{self.plan.generation}.{self.spark.operator}"
        rehearsal = Rehearsal(
            spark=session,
            plan=self.spark,
            generation=self.plan.generation,
            log=self._around.log,
            commits_topic=self.commits_topic,
            bootstrap_servers=self._around.bootstrap_servers,
            folder=self._around.scratch / "rehearsals" / name,
            allow=self._around.allow,
        )
        commits.follow(0)
        rehearsal.run(lambda: not self._closed and self.epoch == epoch)
        self._due = time.monotonic() + AGAIN_S
        self._idle = commits.fold.k if rehearsal.idle else math.inf
        with self._changed:
            if self.epoch == epoch and self.state == "deploying":
                self.state = "synced"

    def _fail(self, error: Exception) -> None:
        with self._changed:
            epoch, skipped = self.epoch, self._skipped
            self.state = "fenced" if isinstance(error, Fenced) else "failed"
            self.error = cause_of(error)
            _log.warning(self.state, job=self.plan.job, unit=self.spark.unit, epoch=epoch, cause=self.error)
            while not self._closed and self.epoch == epoch and self._skipped == skipped:
                self._changed.wait(1.0)

    def _lead(self, session: SparkSession, commits: Commits, epoch: int) -> None:
        """Fences, takes the checkpoint over, and runs the query until an assignment stops it."""
        began_ms = self._around.time_ms()
        if commits.fold.epoch < epoch:
            commits.propose(Fence(epoch, self._author.next(), began_ms))
        if commits.fold.epoch > epoch:
            raise Fenced(f"epoch {epoch} is over before it began: {commits.fold.epoch} has")
        fold = commits.fold
        if fold.ended:
            self._end(commits)
            return
        query = self._query(session, commits, epoch)
        with Controls(self._around.log, self.plan, self.spark, self._topics) as controls:
            self._run(query, controls, epoch, began_ms)

    def _query(self, session: SparkSession, commits: Commits, epoch: int) -> Query | RealTimeQuery:
        if self._real_time:
            self._checkpoints.forget_before(epoch)
            return RealTimeQuery(
                spark=session,
                plan=self.spark,
                generation=self.plan.generation,
                log=self._around.log,
                commits=commits,
                commits_topic=self.commits_topic,
                bootstrap_servers=self._around.bootstrap_servers,
                epoch=epoch,
                directory=self._checkpoints.directory(epoch) / self._around.incarnation,
            )
        fold = commits.fold
        former = -1 if fold.last is None else fold.last.epoch
        directory = self._checkpoints.prepare(epoch, takeover(fold, self._checkpoints.done(former)))
        return Query(
            spark=session,
            plan=self.spark,
            generation=self.plan.generation,
            commits=commits,
            commits_topic=self.commits_topic,
            bootstrap_servers=self._around.bootstrap_servers,
            epoch=epoch,
            directory=directory,
            author=self._author,
            allow=self._around.allow,
        )

    def _run(self, query: Query | RealTimeQuery, controls: Controls, epoch: int, began_ms: int) -> None:
        failures, before = 0, query.come
        while True:
            try:
                self._stream(query, controls, epoch, began_ms)
                self._drain(query, controls)
                self._end(query.commits)
                return
            except (Stop, Fenced):
                raise
            except Exception as error:
                query.commits.follow(0)
                if query.commits.fold.epoch > epoch:
                    raise Fenced(f"epoch {query.commits.fold.epoch} has begun") from error
                come = query.come
                failures, before = failures + 1 if come == before else 1, come
                _log.warning("query failed", unit=self.spark.unit, failures=failures, cause=cause_of(error))
                if failures >= MAX_FAILURES:
                    raise
                self._wait(failures)

    def _stream(self, query: Query | RealTimeQuery, controls: Controls, epoch: int, began_ms: int) -> None:
        """Until a drain has all that arrived."""
        while not controls.draining:
            if controls.paused:
                self.state = "running"
                self._wait(LOOK_S)
                controls.follow()
                continue
            running = query.start()
            if self.state != "running":
                took = {"activation": float(self._around.time_ms() - began_ms)}
                self._around.happened(self.plan.job, self.spark.unit, epoch, "unit-active", took)
            self.state = "running"
            try:
                self._watch(running, controls)
            finally:
                running.stop()

    def _watch(self, running: StreamingQuery, controls: Controls) -> None:
        """Until the query must stop; raises what ended it."""
        while not (controls.paused or controls.draining):
            if running.awaitTermination(LOOK_S):  # type: ignore[arg-type]  # parts of a second are fine
                return
            self._check()
            controls.follow()

    def _drain(self, query: Query | RealTimeQuery, controls: Controls) -> None:
        """Everything that arrived is processed, then what Spark holds comes out, then the last commit."""
        while not controls.all_arrived():
            self._wait(LOOK_S)
        self._finish(query)
        query.commits.follow(0)
        fold = query.commits.fold
        if fold.ended:
            return
        if isinstance(query, Query) and self.spark.holds and self.spark.closes and fold.k:
            query.last_batch = fold.k
            plan_last_batch(query.directory, fold.k)
            self._finish(query)
        else:
            query.commits.propose(self._last_commit(query))

    def _finish(self, query: Query | RealTimeQuery) -> None:
        running = query.start(until_now=True)
        try:
            while not running.awaitTermination(LOOK_S):  # type: ignore[arg-type]
                self._check()
        finally:
            running.stop()

    def _last_commit(self, query: Query | RealTimeQuery) -> Commit:
        fold = query.commits.fold
        return Commit(
            epoch=query.epoch,
            k=fold.k + 1,
            attempt=0,
            start=fold.stop,
            stop={query.commits_topic: query.ends()} if isinstance(query, RealTimeQuery) else fold.stop,
            frames=(),
            watermark=fold.watermark,
            id=self._author.next(),
            prev=fold.prev,
            final=True,
            time_ms=self._around.time_ms(),
            heard=fold.heard,
        )

    def _end(self, commits: Commits) -> None:
        """Tells the controller that nothing follows."""
        progress = Progress(self.spark.unit, commits.fold.k, commits.fold.k, ended=True)
        appender = self._around.log.appender(f"progress-{self.spark.unit}")
        appender.append(Partition(self._topics.progress, 0), encode_progress(progress), key=self.spark.unit.encode())
        appender.flush(30.0)
        appender.close()
        self.state = "ended"

    # -- waiting ------------------------------------------------------------------------------------------------------

    @property
    def _leads(self) -> bool:
        """Later assignments that keep it the leader change nothing: no other copy fences, so its epoch stays valid."""
        same = self._commits is not None and self._commits.skipped == self._skipped
        return same and not self._closed and self._flags.commit and self._charge == self._leading

    def _check(self) -> None:
        """Raises Stop when another copy leads the unit."""
        if not self._leads:
            raise Stop

    def _wait(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._leads, seconds)
        self._check()
