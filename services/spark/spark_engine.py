"""The engine of a copy over Spark: one thread does its tasks, and threads of the JVM bring micro-batches.

Source: PROTOCOL 12. Starting a session or a query takes seconds, and so may stopping one.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast.schemas.plans import REAL_TIME, Plan, SparkPlan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.log.protocol import Log
from holdfast.services.spark.checkpoint import Checkpoints, plan_last_batch
from holdfast.services.spark.commits import put
from holdfast.services.spark.core import lifecycle
from holdfast.services.spark.core.taking_over import takeover
from holdfast.services.spark.engine import (
    Answer,
    BatchAsked,
    Deploy,
    EngineEvent,
    Output,
    Rehearse,
    Run,
    RunEnded,
    Task,
    Write,
)
from holdfast.services.spark.faults import cause_of
from holdfast.services.spark.query import Query
from holdfast.services.spark.query_files import QueryFiles
from holdfast.services.spark.real_time import RealTimeQuery
from holdfast.services.spark.rehearsal import Rehearsal
from holdfast.services.spark.session import own_session, start_python

LOOK_S = 0.05


class Stopped(HoldfastError):
    """The run must end; its micro-batches get no answers any more."""


@dataclass(frozen=True, slots=True)
class SparkRoom:
    """The common part of all engines of a process.

    Attributes:
        session: waits for Spark's session; raises RuntimeError if it cannot be opened.
        checkpoints: root of all jobs' checkpoints.
        in_kafka: True if the files of checkpoints go through Kafka to drivers that do not see that root.
        scratch: folder of this driver.
        allow: modules that operators may come from.
        wake: called when an engine has an event.
    """

    log: Log
    bootstrap_servers: str
    incarnation: str
    checkpoints: Path
    in_kafka: bool
    scratch: Path
    allow: list[str] | None
    session: Callable[[], SparkSession]
    wake: Callable[[], None]


@dataclass(eq=False, slots=True)
class _Doing:
    """A task that was begun."""

    task: Task
    ended: threading.Event = field(default_factory=threading.Event)
    answers: queue.SimpleQueue[Answer] = field(default_factory=queue.SimpleQueue)


class SparkEngine:
    """Implements Engine."""

    def __init__(self, plan: Plan, spark: SparkPlan, topics: JobTopics, room: SparkRoom) -> None:
        self._plan = plan
        self._spark = spark
        self._room = room
        self._commits = Partition(topics.commits(spark.operator), 0)
        self._real_time = spark.mode == REAL_TIME
        self._checkpoints = Checkpoints(room.checkpoints / f"{plan.job}.{plan.generation}" / spark.operator)
        self._files: QueryFiles | None = None
        if room.in_kafka and not self._real_time:
            folder = room.scratch / "query-files" / f"{plan.generation}.{spark.operator}"
            topic = Partition(topics.query_files(spark.operator), 0)
            self._files = QueryFiles(room.log, topic, self._checkpoints, folder)
        self._appender = room.log.appender(f"dead-letters-{spark.operator}")
        self._doing: _Doing | None = None
        self._events: deque[tuple[_Doing, EngineEvent]] = deque()
        self._tasks: queue.SimpleQueue[_Doing | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=f"spark {spark.operator}", daemon=True).start()

    # -- Engine, in the host's loop -----------------------------------------------------------------------------------

    def begin(self, task: Task) -> None:
        self.rest()
        self._doing = _Doing(task)
        self._tasks.put(self._doing)

    def rest(self) -> None:
        if self._doing is not None:
            self._doing.ended.set()
        self._doing = None

    def poll(self) -> EngineEvent | None:
        while self._events:
            doing, event = self._events.popleft()
            if doing is self._doing:
                return event
        return None

    def answer(self, answer: Answer) -> None:
        if self._doing is not None:
            self._doing.answers.put(answer)

    def close(self) -> None:
        self.rest()
        self._tasks.put(None)

    # -- its threads --------------------------------------------------------------------------------------------------

    def _record(self, doing: _Doing, event: EngineEvent) -> None:
        self._events.append((doing, event))
        self._room.wake()

    def _work(self) -> None:
        while (doing := self._tasks.get()) is not None:
            if not doing.ended.is_set():
                self._do(doing)
        self._appender.close()
        if self._files is not None:
            self._files.close()

    def _do(self, doing: _Doing) -> None:
        match doing.task:
            case Deploy():
                self._deploy(doing)
            case Rehearse():
                self._rehearse(doing)
            case Run() as run:
                self._run(doing, run)

    def _deploy(self, doing: _Doing) -> None:
        """Waits for the session. If there is none, the process ends; see `Session.fault`."""
        if self._files is not None:
            self._files.follow()
        with suppress(RuntimeError):
            self._room.session()
            self._record(doing, lifecycle.Deployed())

    def _session(self) -> SparkSession:
        """A session for one run of the query. Raises RuntimeError."""
        pool = f"{self._plan.generation}.{self._spark.operator}"
        return own_session(self._room.session(), self._spark.conf, pool)

    def _rehearse(self, doing: _Doing) -> None:
        """Rehearses the query. A query in real-time mode has nothing to prepare."""
        if self._real_time:
            self._record(doing, lifecycle.Rehearsed())
            return
        if self._files is not None:
            self._files.follow()
        rehearsal = Rehearsal(
            spark=self._session(),
            plan=self._spark,
            generation=self._plan.generation,
            log=self._room.log,
            commits_topic=self._commits.topic,
            bootstrap_servers=self._room.bootstrap_servers,
            folder=self._room.scratch / "rehearsals" / f"{self._plan.generation}.{self._spark.operator}",
            allow=self._room.allow,
        )
        rehearsal.run(lambda: not doing.ended.is_set())
        self._record(doing, lifecycle.NothingRehearsed() if rehearsal.idle else lifecycle.Rehearsed())

    def _run(self, doing: _Doing, run: Run) -> None:
        """Runs the query. In real-time mode, a failure without new output since the last failure counts as one without
        progress."""
        query: Query | RealTimeQuery | None = None
        try:
            query = self._real_time_query(run) if self._real_time else self._query(doing, run)
            self._watch(doing, run, query)
        except Exception as error:
            come = query.come if isinstance(query, RealTimeQuery) else ()
            self._record(doing, lifecycle.RunFailed(cause_of(error), come))

    def _watch(self, doing: _Doing, run: Run, query: Query | RealTimeQuery) -> None:
        running = query.start(until_now=run.until_now)
        self._record(doing, lifecycle.Started())
        try:
            while not doing.ended.is_set():
                over = running.awaitTermination(LOOK_S)  # type: ignore[arg-type]  # parts of a second are fine
                if self._files is not None:
                    self._files.complete()
                if over:
                    self._record(doing, RunEnded(query.ends() if isinstance(query, RealTimeQuery) else None))
                    return
        finally:
            running.stop()

    def _query(self, doing: _Doing, run: Run) -> Query:
        directory = self._directory(doing, run)
        if run.closing:
            plan_last_batch(directory, run.log.k)
        return Query(
            spark=self._session(),
            plan=self._spark,
            generation=self._plan.generation,
            commits_topic=self._commits.topic,
            bootstrap_servers=self._room.bootstrap_servers,
            epoch=run.epoch,
            directory=directory,
            allow=self._room.allow,
            ask=partial(self._ask, doing),
            put=partial(put, self._appender, self._commits),
            save=self._saving(run),
        )

    def _directory(self, doing: _Doing, run: Run) -> Path:
        """The checkpoint of the run's epoch, as of the last valid commit if the epoch begins."""
        if self._files is not None:
            return self._files.prepare(run, lambda: not doing.ended.is_set())
        former = -1 if run.log.last is None else run.log.last.epoch
        return self._checkpoints.prepare(run.epoch, takeover(run.log, self._checkpoints.done(former)))

    def _saving(self, run: Run) -> Callable[[Write], None]:
        """A function that saves the checkpoint before the commit of a micro-batch. Nothing follows the last one."""
        return (lambda write: None) if self._files is None or run.closing else self._files.save

    def _real_time_query(self, run: Run) -> RealTimeQuery:
        self._checkpoints.forget_before(run.epoch)
        return RealTimeQuery(
            spark=self._session(),
            plan=self._spark,
            generation=self._plan.generation,
            log=self._room.log,
            commits_topic=self._commits.topic,
            bootstrap_servers=self._room.bootstrap_servers,
            epoch=run.epoch,
            directory=self._checkpoints.directory(run.epoch) / self._room.incarnation,
        )

    def _ask(self, doing: _Doing, question: BatchAsked | Output) -> Answer:
        """Asks the copy and waits for its answer. Called in the JVM's thread of a query. Raises Stopped."""
        self._record(doing, question)
        while not doing.ended.is_set():
            try:
                return doing.answers.get(timeout=LOOK_S)
            except queue.Empty:
                continue
        raise Stopped("the run was stopped")


class Session:
    """Spark's session, which is opened once from the start for all callers; then Spark's Python starts beside them."""

    def __init__(self, open_session: Callable[[], SparkSession]) -> None:
        self._open = open_session
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        self._there = threading.Event()
        threading.Thread(target=self._work, name="session", daemon=True).start()

    def _work(self) -> None:
        try:
            self._session = self._open()
        except BaseException as error:
            self._error = error
        self._there.set()
        if self._session is not None:
            with suppress(Exception):  # a query says what is wrong
                start_python(self._session)

    def wait(self) -> SparkSession:
        """Returns the session when it is open. Raises RuntimeError if it cannot be opened."""
        self._there.wait()
        if self._session is None:
            raise RuntimeError(f"Spark's session cannot be opened: {self._error}")
        return self._session

    def fault(self) -> str:
        """The reason why no query can run; empty if queries can."""
        if self._error is not None:
            return f"Spark's session cannot be opened: {self._error}"
        gateway: Any = None if self._session is None else self._session.sparkContext._gateway
        process = getattr(gateway, "proc", None)
        status = None if process is None else process.poll()
        return "" if status is None else f"Spark's JVM has ended with status {status}"
