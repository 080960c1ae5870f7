"""A query engine without Spark: its micro-batches take simulated time, fail, come late, and leave frames behind.

Its operator gives every record back as a row. What it keeps between runs lies where all drivers see it, as the
checkpoints of Spark's queries do (services/spark/checkpoint.py), or goes through Kafka (query_files.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl

from holdfast.schemas import dead_letters
from holdfast.schemas.commits import DEAD, Named, Positions
from holdfast.schemas.plans import Plan, SparkPlan
from holdfast.schemas.topics import JobTopics, Partition, generation_number
from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.codecs.fields import TIME, stream_schema
from holdfast.services.kernel.codecs.frames import FrameCodec, Sender
from holdfast.services.kernel.errors import PositionGone, Retriable, StateCorrupted
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.spark.core import lifecycle, taking_over
from holdfast.services.spark.engine import (
    Answer,
    BatchAsked,
    Committed,
    Deploy,
    Discard,
    EngineEvent,
    Output,
    Refused,
    Rehearse,
    Run,
    RunEnded,
    Task,
    Write,
)
from tests.simulation.kafka.broker import Broker
from tests.simulation.processes.query_files import Notes, NotesInKafka, Of

if TYPE_CHECKING:
    from tests.simulation.processes.services import Process

LATENESS_US = 1_000_000
FROZEN_US = 10_000
LOOK_MS = 5


def describe(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    """Stands in for what Spark says of an operator."""
    if kind == "spark":
        return Stream(dict(inputs[0].fields), hosted={"time": "at"})
    return catalogue.describe(kind, params, inputs)


@dataclass(frozen=True, slots=True)
class Records:
    """Records of an input of a micro-batch: those that are rows, and the dead letters of the others."""

    rows: pl.DataFrame
    dead: list[bytes]


def read(broker: Broker, plan: SparkPlan, start: Positions, stop: Positions) -> Records:
    """Records of all inputs in [start, stop)."""
    frames, dead = [], []
    for given in plan.inputs:
        decoder = Decoder(given.fields, "json", given.event_time or None, given.unit_of_time or None)
        for index, end in sorted(stop[given.topic].items()):
            where = Partition(given.topic, index)
            found = [one for one in broker.scan(where, start[given.topic].get(index, 0)) if one.offset() < end]
            decoded = decoder.decode([one.value() for one in found], [one.timestamp()[1] for one in found])
            frames.append(decoded.rows)
            for position, reason in decoded.refused:
                one = found[position]
                letter = dead_letters.of_record(
                    given.source or plan.operator, reason, 0, given.topic, index, one.offset(), one.value() or b""
                )
                dead.append(DEAD + dead_letters.encode(letter))
    schema = stream_schema(plan.output)
    rows = pl.concat(frames).select(*schema) if frames else pl.DataFrame(schema=schema)
    return Records(rows.cast(schema), dead)


class SharedNotes:
    """Notes of all queries, by generation, operator and epoch: a zombie writes where no later query reads.

    in_kafka: true if drivers do not see each other's notes, and send them. wrong: what takeovers found that is not so.
    """

    def __init__(self, in_kafka: bool = False) -> None:
        self._notes: dict[tuple[str, str], dict[int, Notes]] = {}
        self._true: dict[tuple[str, str], dict[Of, dict[str, bytes]]] = {}
        self._in_kafka, self.wrong = in_kafka, list[str]()

    def kafka(self, process: Process, plan: Plan, operator: str, topics: JobTopics) -> NotesInKafka | None:
        if not self._in_kafka:
            return None
        true = self._true.setdefault((plan.generation, operator), {})
        random = Random(f"{process.own}/{plan.generation}/{operator}/files")
        return NotesInKafka(process, Partition(topics.query_files(operator), 0), random, true, self.wrong)

    def prepare(self, plan: Plan, operator: str, run: Run) -> Notes:
        """Prepares notes as services/spark/checkpoint.py does with files."""
        known = self._notes.setdefault((plan.generation, operator), {})
        if run.epoch in known:
            return known[run.epoch]
        former = known.get(-1 if run.log.last is None else run.log.last.epoch, Notes())
        start = taking_over.takeover(run.log, sorted(former.done))
        made = known[run.epoch] = Notes()
        if start.former is not None:
            made.stops = {batch: stop for batch, stop in former.stops.items() if batch <= start.planned}
            made.done = {batch for batch in former.done if batch <= start.done}
            assert start.planned in made.stops, f"{operator}: batch {start.planned} is committed, but not noted"
        return made


@dataclass(slots=True)
class _Batch:
    """A micro-batch that is being written. offsets: of its frames and dead letters, by their place in it."""

    write: Write
    stop: Positions
    rows: list[int]
    newest_us: int
    frames: dict[int, int] = field(default_factory=dict)
    dead: dict[int, int] = field(default_factory=dict)
    dead_count: int = 0
    failed: bool = False


class FakeEngine:
    """Implements Engine, in simulated time."""

    def __init__(self, process: Process, shared: SharedNotes, plan: Plan, spark: SparkPlan, topics: JobTopics) -> None:
        self._process, self._shared, self._plan, self._spark = process, shared, plan, spark
        self._commits = Partition(topics.commits(spark.operator), 0)
        self._appender = process.link.appender("engine")
        self._kafka = shared.kafka(process, plan, spark.operator, topics)
        self._random = Random(f"{process.own}/{plan.generation}/{spark.operator}/engine")
        self._pace_ms = self._random.choice((5, 20, 80))
        self._codec = FrameCodec(stream_schema(spark.output))
        self._number, self._fails = 0, False
        self._events: deque[tuple[int, EngineEvent]] = deque()
        self._waiting: Callable[[Answer], None] | None = None

    # -- Engine -------------------------------------------------------------------------------------------------------

    def begin(self, task: Task) -> None:
        self.rest()
        number = self._number
        match task:
            case Deploy():
                self._later(number, 4 * self._pace_ms, lambda: self._tell(number, lifecycle.Deployed()))
            case Rehearse():
                nothing = self._random.random() < 0.2
                said = lifecycle.NothingRehearsed() if nothing else lifecycle.Rehearsed()
                self._later(number, 8 * self._pace_ms, lambda: self._tell(number, said))
            case Run() as run:
                self._later(number, 4 * self._pace_ms, lambda: self._start(number, run))

    def rest(self) -> None:
        self._number += 1
        self._waiting = None

    def poll(self) -> EngineEvent | None:
        while self._events:
            number, event = self._events.popleft()
            if number == self._number:
                return event
        return None

    def answer(self, answer: Answer) -> None:
        waiting, self._waiting = self._waiting, None
        assert waiting is not None, "an answer without a question"
        self._later(self._number, 1, lambda: waiting(answer))

    def close(self) -> None:
        self.rest()

    # -- a run --------------------------------------------------------------------------------------------------------

    def _start(self, number: int, run: Run) -> None:
        if self._kafka is None:
            notes = self._shared.prepare(self._plan, self._spark.operator, run)
        elif self._kafka.prepare(run.epoch, run.log.last):
            notes = self._kafka.notes
        else:
            self._later(number, self._pace_ms, lambda: self._start(number, run))
            return
        if self._by_chance():
            self._tell(number, lifecycle.RunFailed("the query cannot start"))
            return
        self._tell(number, lifecycle.Started())
        self._next(number, run, notes, self._ends() if run.until_now else None)

    def _ends(self) -> Positions | None:
        """None: the broker does not answer."""
        if not self._process.link.answered:
            return None
        broker, counts = self._process.link.broker, self._process.link.broker.topics()
        try:
            return {
                topic: {
                    partition.index: end
                    for partition, end in broker.offsets(
                        [Partition(topic, index) for index in range(counts[topic])], "end"
                    ).items()
                }
                for topic in self._spark.first_positions
            }
        except Retriable:
            return None

    def _next(self, number: int, run: Run, notes: Notes, until: Positions | None) -> None:
        """The next micro-batch, once there are records for one."""
        batch = max(notes.done, default=-1) + 1
        if batch not in notes.stops:
            ends = self._ends() if not run.until_now or until is None else until
            until = ends if run.until_now else None
            before = notes.stops.get(batch - 1, self._spark.first_positions)
            if ends is None or all(
                end <= before[topic].get(index, 0) for topic, offsets in ends.items() for index, end in offsets.items()
            ):
                if ends is not None and run.until_now:
                    self._tell(number, RunEnded())
                else:
                    self._later(number, self._pace_ms, lambda: self._next(number, run, notes, until))
                return
            notes.stops[batch] = {topic: self._limited(before[topic], offsets) for topic, offsets in ends.items()}
        self._ask(number, BatchAsked(batch), lambda answer: self._judged(number, run, notes, batch, answer, until))

    def _limited(self, before: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
        """Ends of a micro-batch in a topic: each topic has a limit of its own."""
        most = self._random.choice((5, 50, 1_000))
        return {index: min(end, before.get(index, 0) + most) for index, end in ends.items()}

    def _ask(self, number: int, question: EngineEvent, then: Callable[[Answer], None]) -> None:
        def ask() -> None:
            self._waiting = then
            self._tell(number, question)

        self._later(number, 1, ask)

    def _judged(self, number: int, run: Run, notes: Notes, batch: int, answer: Answer, until: Positions | None) -> None:
        def done() -> None:
            self._fails = False
            notes.done.add(batch)
            if self._kafka is not None:
                self._kafka.complete(batch)
            self._next(number, run, notes, until)

        match answer:
            case Discard() | Committed():
                if isinstance(answer, Discard):
                    notes.process(batch)
                self._later(number, self._pace_ms, done)
            case Write():
                start = notes.stops.get(batch - 1, self._spark.first_positions)
                notes.process(batch)
                self._write(
                    number, run, answer, start, notes.stops[batch],
                    lambda after: self._judged(number, run, notes, batch, after, until),
                )  # fmt: skip
            case Refused(cause):
                self._tell(number, lifecycle.RunFailed(cause))

    def _write(
        self,
        number: int,
        run: Run,
        write: Write,
        start: Positions,
        stop: Positions,
        then: Callable[[Answer], None],
    ) -> None:
        """Tasks write their frames; one may be tried twice, or end after its run has ended, or fail."""
        try:
            found = read(self._process.link.broker, self._spark, start, stop)
        except Retriable:
            later = partial(self._write, number, run, write, start, stop, then)
            self._later(number, self._pace_ms, later)
            return
        except PositionGone as gone:
            self._process.failed(StateCorrupted(f"the query reads rows that were trimmed: {gone}"))
            return
        count = min(self._random.choice((1, 1, 2)), found.rows.height)
        parts = [found.rows[at::count] for at in range(count)]
        newest_us = int(found.rows[TIME].max() or 0) if found.rows.height else 0  # type: ignore[arg-type]
        batch = _Batch(write, stop, [part.height for part in parts], newest_us, dead_count=len(found.dead))
        sender = Sender(0, generation_number(self._plan.generation), run.epoch)
        for at, part in enumerate(parts):
            (frame,) = self._codec.encode(part, sender, write.k, write.log.watermark)
            for again in range(self._random.choice((1, 1, 1, 2))):
                late = self._pace_ms * self._random.choice((1, 2, 10))
                self._later(None, late * (again + 1), partial(self._append, frame, batch, batch.frames, at))
        for at, letter in enumerate(found.dead):
            self._append(letter, batch, batch.dead, at)
        if self._by_chance():
            self._later(number, 2 * self._pace_ms, lambda: self._tell(number, lifecycle.RunFailed("a task failed")))
        else:
            self._later(number, LOOK_MS, lambda: self._written(number, batch, then))

    def _append(self, value: bytes, batch: _Batch, offsets: dict[int, int], at: int) -> None:
        def done(error: Exception | None, offset: int) -> None:
            if error is None:
                offsets[at] = offset
            batch.failed |= error is not None

        self._appender.append(self._commits, value, done=done)

    def _written(self, number: int, batch: _Batch, then: Callable[[Answer], None]) -> None:
        self._appender.poll()
        if batch.failed:
            self._tell(number, lifecycle.RunFailed("frames were not acknowledged"))
        elif len(batch.frames) < len(batch.rows) or len(batch.dead) < batch.dead_count:
            self._later(number, LOOK_MS, lambda: self._written(number, batch, then))
        else:
            before = batch.write.log
            frames = tuple(Named(batch.frames[at], rows) for at, rows in enumerate(batch.rows))
            output = Output(
                k=batch.write.k,
                attempt=batch.write.attempt,
                stop=batch.stop,
                frames=frames,
                watermark=max(before.watermark, batch.newest_us - LATENESS_US),
                dead=tuple(batch.dead[at] for at in range(batch.dead_count)),
            )
            self._save(number, output, batch.write, then)

    def _save(self, number: int, output: Output, write: Write, then: Callable[[Answer], None]) -> None:
        """Sends the files of the checkpoint before the commit."""
        if self._kafka is None:
            self._ask(number, output, then)
            return
        ended: list[EngineEvent | None] = []
        failed = lifecycle.RunFailed("files were not acknowledged")
        self._kafka.save(
            write.k, write.attempt, write.log.last, done=lambda: ended.append(None), lost=lambda: ended.append(failed)
        )

        def look() -> None:
            assert self._kafka is not None
            self._kafka.poll()
            if not ended:
                self._later(number, LOOK_MS, look)
            elif ended[0] is None:
                self._ask(number, output, then)
            else:
                self._tell(number, ended[0])

        look()

    def _by_chance(self) -> bool:
        """True if something fails now; never twice without a batch between, or the job would fail."""
        if self._fails or self._random.random() >= 0.05:
            return False
        self._fails = True
        return True

    # -- time ---------------------------------------------------------------------------------------------------------

    def _tell(self, number: int, event: EngineEvent) -> None:
        self._events.append((number, event))
        self._process.wake()

    def _later(self, number: int | None, ms: int, deed: Callable[[], None]) -> None:
        """Unless its task has ended by then; None: even so. A frozen process does it late."""
        timeline = self._process.timeline

        def due() -> None:
            if not self._process.alive or (number is not None and number != self._number):
                return
            if self._process.frozen:
                timeline.after(FROZEN_US, due)
            else:
                deed()

        timeline.after(int(ms * 1000 * self._random.uniform(0.2, 1.5)), due)
