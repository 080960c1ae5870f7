"""The engine of a copy in memory: it runs a query over files of the log in memory, each time when new records have
come.

Source: JOBS `try`. The query is that of a driver (services/spark/query.py), and the copy decides on each micro-batch as
on a driver. Spark has run the micro-batch by then, so no thread waits for an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.schemas.commits import Named
from holdfast.schemas.plans import Plan, SparkPlan
from holdfast.schemas.topics import JobTopics, Partition, generation_number
from holdfast.services.log.protocol import Log
from holdfast.services.spark import unfit
from holdfast.services.spark.checkpoint import Checkpoints, Planned, last_file, plan_last_batch, planned
from holdfast.services.spark.commits import put
from holdfast.services.spark.core import lifecycle
from holdfast.services.spark.core.modes import output_mode
from holdfast.services.spark.core.taking_over import takeover
from holdfast.services.spark.engine import (
    Answer,
    BatchAsked,
    Deploy,
    EngineEvent,
    Output,
    Refused,
    Rehearse,
    Run,
    RunEnded,
    Task,
    Write,
)
from holdfast.services.spark.faults import cause_of
from holdfast.services.spark.frames import frames_of
from holdfast.services.spark.local.files import TopicFiles, of_topic
from holdfast.services.spark.local.session import local_session
from holdfast.services.spark.observing import Observed, observe
from holdfast.services.spark.operator import output, result_of
from holdfast.services.spark.query import BatchFailed, outcome
from holdfast.services.spark.session import own_session


@dataclass(frozen=True, slots=True)
class LocalRoom:
    """The common part of the engines of a run.

    Attributes:
        folder: folder of the run.
        allow: modules that operators may come from.
        time_ms: time of day.
        ripe: returns True if new records are worth a micro-batch.
    """

    log: Log
    folder: Path
    allow: list[str] | None
    time_ms: Callable[[], int]
    ripe: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Ran:
    """A micro-batch that Spark has run.

    Attributes:
        batch: number by Spark's own count.
        files: files that it read: behind the first, up to the second.
    """

    batch: int
    rows: pa.Table
    note: Planned
    files: tuple[int, int]
    seen: Observed


@dataclass(slots=True)
class _Begun:
    """A run that was begun.

    Attributes:
        again: True if Spark may have noted a micro-batch that is not done.
        over: True if the run has no work left.
    """

    run: Run
    session: SparkSession
    directory: Path
    rows: DataFrame
    again: bool
    ran: deque[_Ran] = field(default_factory=deque)
    over: bool = False


class LocalEngine:
    """Implements Engine; `poll` waits for Spark."""

    def __init__(self, plan: Plan, spark: SparkPlan, topics: JobTopics, room: LocalRoom) -> None:
        self._plan = plan
        self._spark = spark
        self._room = room
        self._commits = Partition(topics.commits(spark.operator), 0)
        folder = room.folder / spark.operator
        self._name = str(folder)
        self._checkpoints = Checkpoints(folder / "checkpoints")
        self._files = TopicFiles(room.log, folder / "input", spark.first_positions)
        self._appender = room.log.appender(f"frames-{spark.operator}")
        self._runs = 0
        self._events: deque[EngineEvent] = deque()
        self._begun: _Begun | None = None

    # -- Engine -------------------------------------------------------------------------------------------------------

    def begin(self, task: Task) -> None:
        self.rest()
        match task:
            case Deploy():
                self._events.append(lifecycle.Deployed())
            case Rehearse():
                self._events.append(lifecycle.Rehearsed())
            case Run() as run:
                self._try(lambda: self._start(run))

    def rest(self) -> None:
        self._begun = None
        self._events.clear()

    def poll(self) -> EngineEvent | None:
        begun = self._begun
        if begun is not None and not self._events and not begun.ran:
            self._try(lambda: self._advance(begun))
        return self._events.popleft() if self._events else None

    def answer(self, answer: Answer) -> None:
        assert self._begun is not None, "an answer to no run"
        ran = self._begun.ran
        if isinstance(answer, Refused):
            self._fail(answer.cause)
        elif isinstance(answer, Write):
            self._try(lambda: self._events.append(self._written(ran[0], answer)))
        else:
            ran.popleft()
            self._ask(ran)

    def close(self) -> None:
        self.rest()
        self._appender.close()

    # -- a run --------------------------------------------------------------------------------------------------------

    def _try(self, deed: Callable[[], None]) -> None:
        try:
            deed()
        except Exception as error:
            self._fail(cause_of(error))

    def _fail(self, cause: str) -> None:
        self.rest()
        self._events.append(lifecycle.RunFailed(cause))

    def _start(self, run: Run) -> None:
        """Starts in a directory of its own. Spark notes a micro-batch as done before it is valid, so each run begins
        behind the last valid commit, like a takeover."""
        start = takeover(run.log, self._checkpoints.done(self._runs))
        start = start if start.former is None else replace(start, former=self._runs)
        self._runs += 1
        directory = self._checkpoints.prepare(self._runs, start)
        if run.closing:
            plan_last_batch(directory, run.log.k)
        session = own_session(local_session(), self._spark.conf)
        records = self._files.stream(session)
        rows = output(self._spark, result_of(self._spark, partial(of_topic, records), self._room.allow))
        self._begun = _Begun(run, session, directory, rows, again=len(self._files) > 0)
        self._events.append(lifecycle.Started())

    def _advance(self, begun: _Begun) -> None:
        """Runs Spark over new records up to their end."""
        ends = begun.run.until_now
        if begun.over:
            self._begun = None
            self._events.append(RunEnded())
            return
        come = (ends or self._room.ripe()) and self._files.take()
        if come or begun.again:
            self._play(begun)
        begun.again, begun.over = False, ends
        self._ask(begun.ran)

    def _ask(self, ran: deque[_Ran]) -> None:
        if ran:
            self._events.append(BatchAsked(ran[0].batch))

    def _play(self, begun: _Begun) -> None:
        """Runs the query until Spark has read all files and closed the windows that they close."""

        def take(rows: DataFrame, batch: int) -> None:
            try:
                begun.ran.append(self._ran(begun, rows, batch))
            except Exception as error:
                raise BatchFailed(cause_of(error)) from None

        writer = begun.rows.writeStream.foreachBatch(take).outputMode(output_mode(self._spark.emit))
        writer = writer.option("checkpointLocation", str(begun.directory)).trigger(availableNow=True)
        running = writer.queryName(self._name).start()
        try:
            running.awaitTermination()
        finally:
            running.stop()

    def _ran(self, begun: _Begun, rows: DataFrame, batch: int) -> _Ran:
        """The result of a micro-batch; called in Spark's thread."""
        found = rows.toArrow()
        last = last_file(begun.directory, batch)
        before = last_file(begun.directory, batch - 1) if batch else -1
        note = replace(planned(begun.directory, batch), stop=self._files.end(last), time_ms=self._room.time_ms())
        return _Ran(batch, found, note, (before, last), seen=observe(begun.session, self._name, self._spark))

    def _written(self, ran: _Ran, write: Write) -> Output:
        """Writes the output of a micro-batch to the commit log and returns it."""
        rows = pl.from_arrow(ran.rows)
        assert isinstance(rows, pl.DataFrame)
        assert self._begun is not None
        of = generation_number(self._plan.generation), self._begun.run.epoch, write.k
        frames = frames_of(rows, self._spark.output, of, ran.note.time_ms * 1000) if rows.height else []
        offsets = put(self._appender, self._commits, [frame.data for frame in frames])
        named = tuple(Named(at, frame.rows) for at, frame in zip(offsets, frames, strict=True))
        return outcome(self._spark, write, ran.note, ran.seen, frames=named, dead=tuple(self._dead(ran)))

    def _dead(self, ran: _Ran) -> Sequence[int]:
        """Offsets of the dead letters of a micro-batch, which it appends."""
        letters: list[bytes] = []
        for one, count in zip(self._spark.inputs, ran.seen.unfit, strict=True):
            for file in range(ran.files[0] + 1, ran.files[1] + 1) if count else ():
                records = self._files.read(local_session(), file)
                letters += unfit.letters(one, self._spark.operator, of_topic(records, one))
        return put(self._appender, self._commits, letters) if letters else ()
