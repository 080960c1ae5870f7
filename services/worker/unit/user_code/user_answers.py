"""The answers that users' code awaits, at one copy: the leader asks, the cut log decides, and every copy reads the
decision.

Source: PROTOCOL 3, decision 0225. core/answer_steps.py decides the next step. A unit without such code does nothing
here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from holdfast.schemas import answers, cuts
from holdfast.schemas.answers import Answer
from holdfast.schemas.assignments import Flags
from holdfast.schemas.cuts import Answered
from holdfast.schemas.decided import Id
from holdfast.schemas.events import Event
from holdfast.schemas.operator_settings import AskingSettings
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.answers import MOST_PARTS, Answers
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import RowCodec
from holdfast.services.kernel.errors import HoldfastError, InvalidRecord, Retriable
from holdfast.services.kernel.operators.answered import Questions
from holdfast.services.kernel.operators.python import DEAD_LETTER, prepared
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.kernel.plurals import plural
from holdfast.services.worker.core.answer_steps import AnsweringView, Step, next_step, pause_ms
from holdfast.services.worker.unit.batches.batch_processor import BatchProcessor
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit

PART_BYTES = 384 * 1024
MOST_BYTES = MOST_PARTS * PART_BYTES
"""Most bytes of a task's answer for a batch."""


@dataclass(slots=True)
class _Asked:
    """A task of the batch that waits.

    Attributes:
        questions: the calls with their answers so far; None before the first call.
    """

    task: TaskLayout
    rows: pl.DataFrame
    watermark: int
    questions: Questions | None = None
    failures: int = 0
    again_ms: float = -math.inf
    busy: bool = False
    why: str = ""

    @property
    def settings(self) -> AskingSettings:
        """The setting `ask` of its operator."""
        found = self.task.operator.python.ask
        assert found is not None, "its code awaits answers"
        return found


@dataclass(slots=True)
class _Waiting:
    """The batch that waits for answers."""

    batch: int = 0
    asked: dict[str, _Asked] = field(default_factory=dict)


class UserAnswers:
    """The answers of one copy's tasks, from a restored image on. `wake` is called after an outcome."""

    def __init__(self, unit: HostedUnit, processing: BatchProcessor, wake: Callable[[], None]) -> None:
        self._job = unit.job
        self._unit = unit.name
        self._around = unit.around
        self._wake = wake
        self._processing = processing
        self._intake = processing.intake
        self._flags = Flags(commit=False)
        self._tasks = {task.name: task for task in unit.layout.tasks if task.operator.python.ask is not None}
        self._partition = Partition(unit.job.topics.cuts, 0)
        self._answers = Answers(self._tasks)
        self._announced: Id | None = None
        self._heard = self._led = False
        self._waiting = _Waiting()
        self._failed = list[HoldfastError]()

    # -- what the copy asks -------------------------------------------------------------------------------------------

    def ready(self, batch: int) -> bool:
        """True if the batch, whose input is here, has all of its answers."""
        if not self._tasks:
            return True
        self._take()
        known = self._answers.of(batch)
        return all(name in known for name in self._of_batch(batch).asked)

    def known(self, batch: int) -> Mapping[str, Answer]:
        """The answers of a ready batch, by task."""
        return self._answers.of(batch) if self._tasks else {}

    @property
    def deciding(self) -> bool:
        """True if an answer by any copy is awaited."""
        known = self._answers.of(self._waiting.batch)
        return self._waiting.batch > self._processing.batch and any(name not in known for name in self._waiting.asked)

    @property
    def waits(self) -> str:
        """A text about answers that do not arrive; empty if none is late."""
        batch, late = self._waiting.batch, (one for one in self._waiting.asked.values() if one.failures)
        return "; ".join(
            f"{one.task.name} awaits answers to batch {batch}, asked {plural(one.failures, 'time')}: {one.why}"
            for one in late
        )

    # -- what happens to it -------------------------------------------------------------------------------------------

    def place(self, flags: Flags) -> None:
        """Applies these flags from now on."""
        self._flags = flags

    def due_ms(self, now_ms: float) -> float:
        """The time of the next step."""
        if not self._tasks:
            return math.inf
        self._take()
        if self._failed:
            return now_ms
        steps = [(next_step(self._view(one, now_ms)), one) for one in self._lacking()]
        if any(step is not Step.WAIT for step, _ in steps):
            return now_ms
        return min((one.again_ms for _, one in steps if one.failures and not one.busy), default=math.inf)

    def take_steps(self, now_ms: float) -> None:
        """Takes all steps that are due. Raises InvalidRecord, and the errors of loading the code."""
        if self._failed:
            raise self._failed[0]
        for one in self._lacking():
            while (step := next_step(self._view(one, now_ms))) is not Step.WAIT:
                self._do(step, one)

    # -- what it does -------------------------------------------------------------------------------------------------

    def _take(self) -> None:
        """Applies the records that were read from the cut log."""
        leads = self._flags.commit and self._flags.process
        if leads != self._led:
            self._led = leads
            self._heard = False
            self._announced = None
            self._waiting = _Waiting()
        for record in self._intake.cutter.answered:
            self._heard |= record.id == self._announced
            if record.batch > self._processing.batch:
                self._answers.read(record)
        self._intake.cutter.answered.clear()
        self._answers.forget(self._processing.batch)

    def _of_batch(self, batch: int) -> _Waiting:
        """The rows of a batch that is here, by task with rows."""
        if self._waiting.batch != batch:
            found = self._intake.inputs.held(batch)
            fed = {name: found[name, 0] for name in self._tasks}
            self._waiting = _Waiting(
                batch,
                {name: _Asked(self._tasks[name], o.rows, o.watermark) for name, o in fed.items() if o.rows.height},
            )
        return self._waiting

    def _lacking(self) -> list[_Asked]:
        batch = self._processing.batch + 1
        if not self._tasks or not self._led or not self._intake.ready(batch):
            return []
        known = self._answers.of(batch)
        return [one for name, one in self._of_batch(batch).asked.items() if name not in known]

    def _view(self, one: _Asked, now_ms: float) -> AnsweringView:
        return AnsweringView(
            leads=self._led,
            announced=self._heard,
            announcing=self._announced is not None,
            busy=one.busy,
            made=one.questions is not None and not one.questions.open,
            failures=one.failures,
            again_ms=one.again_ms,
            now_ms=now_ms,
            retries=one.settings.retries,
            on_error=one.task.operator.python.on_error or DEAD_LETTER,
        )

    def _do(self, step: Step, one: _Asked) -> None:
        batch = self._waiting.batch
        what = f"{one.task.operator.python.python}, batch {batch}: asked {plural(one.failures, 'time')}, {one.why}"
        if step is Step.ANNOUNCE:
            self._announced = self._around.author.next()
            self._append(Answered(self._unit, one.task.name, 0, self._announced, part=0, parts=0, data=b""))
        elif step is Step.FAIL:
            raise InvalidRecord(f"{what}. `on_error: retry` waits until it is answered")
        elif step is Step.ASK:
            from holdfast.services.worker.unit.user_code.awaited_calls import ask  # no other job needs asyncio

            one.busy = True
            settings, make = one.settings, partial(self._questions, one, batch)
            call = partial(ask, make, timeout_s=settings.timeout_s, concurrency=settings.concurrency)
            self._around.answers.run(call, partial(self._outcome, one), f"{self._job.job_key}/{one.task.name}")
        else:
            assert one.questions is not None
            if step is Step.REFUSE:
                one.questions.refuse(what)
            self._propose(one)

    def _questions(self, one: _Asked, batch: int) -> Questions:
        """The calls of a task. Runs beside the loop, because loading the code may block."""
        if one.questions is None:
            code, shape = prepared(one.task.operator, one.task.input_fields[0])
            one.questions = Questions(
                code,
                shape,
                one.task.name,
                one.rows,
                batch=batch,
                watermark=one.watermark,
                most=one.settings.rows,
            )
        return one.questions

    def _outcome(self, one: _Asked, outcome: Any) -> None:
        """Applies the outcome of the calls, in the loop."""
        one.busy = False
        self._wake()
        if isinstance(outcome, HoldfastError) and not isinstance(outcome, Retriable):
            self._failed.append(outcome)
            return
        one.why = str(outcome) if isinstance(outcome, Exception) else outcome[1]
        if not one.why:
            return
        one.failures += 1
        one.again_ms = self._around.clock_ms() + pause_ms(one.failures, 1000 * one.settings.pause_s)
        if one.failures == 1 and self._waiting.asked.get(one.task.name) is one:
            detail = f"{one.task.name}, batch {self._waiting.batch}: {one.why}; it is asked again"
            event = Event(self._around.time_ms(), "no-answer", job=self._job.plan.job, unit=self._unit, detail=detail)
            self._around.happened(event)

    def _propose(self, one: _Asked) -> None:
        """Proposes the answer. Raises InvalidRecord if it is too large."""
        assert one.questions is not None
        data = answers.encode(one.questions.answer(RowCodec(stream_schema(one.task.operator.fields))))
        if len(data) > MOST_BYTES:
            raise InvalidRecord(
                f"{one.task.name}, batch {self._waiting.batch}: its answer has {plural(len(data), 'byte')}, more than "
                f"{MOST_BYTES:,}: a smaller max_batch_records of the job makes smaller ones"
            )
        one.busy, id = True, self._around.author.next()
        pieces = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
        for part, piece in enumerate(pieces):
            batch = self._waiting.batch
            record = Answered(self._unit, one.task.name, batch, id, part=part, parts=len(pieces), data=piece)
            self._append(record, one)

    def _append(self, record: Answered, one: _Asked | None = None) -> None:
        """Appends a record, and again under another id if Kafka may have lost it. Of two answers, the log counts the
        first complete one."""

        def appended(error: Exception | None, _: int) -> None:
            if error is None:
                return
            if one is not None:
                one.busy = False
            elif self._announced == record.id:
                self._announced = None
            self._wake()

        self._around.appender.append(self._partition, cuts.encode(record), done=appended)
