"""python: an operator with the user's code. Users import from the package `holdfast`.

Source: JOBS "Python operators", PROTOCOL 4 (batch time and a batch-seeded generator instead of clock and `random`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import polars as pl

from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK, TaskRaised
from holdfast.schemas.job_operators import Python
from holdfast.schemas.operator_settings import PythonSettings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.errors import Divergence, HoldfastError, InvalidRecord, Retriable
from holdfast.services.kernel.operators import answered
from holdfast.services.kernel.operators.answered import AnsweredTask
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Problems, Stream
from holdfast.services.kernel.operators.moments import moment
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Operator, Outcome, Refused
from holdfast.services.kernel.operators.raises import Found, Places
from holdfast.services.kernel.operators.user_code import (
    CodeUnavailable,
    Context,
    PythonOperator,
    Returned,
    has_timers,
    load,
)
from holdfast.services.kernel.operators.user_declared import Declared
from holdfast.services.kernel.operators.user_errors import text_of
from holdfast.services.kernel.operators.user_output import OutputShape, SeveralShapes
from holdfast.services.kernel.operators.user_state import KeyedTable, State
from holdfast.services.kernel.operators.user_timers import BY_CLOCK, Timers
from holdfast.services.kernel.state.table import Tables

__all__ = ["CodeUnavailable", "Context", "KeyedTable", "PythonOperator", "PythonTask", "State", "load", "restrict"]

DEAD_LETTER = "dead-letter"
_DISAGREES = (
    "{code}, batch {batch}: {what}. The cut log says otherwise of this batch, as another process found: either the "
    "code, or a library that it uses, is another version there, or what it raises depends on more than its arguments. "
    "Run the same versions everywhere; `on_error: fail` stops a job at what its code raises"
)
_allowed: list[Sequence[str] | None] = [None]


def restrict(modules: Sequence[str] | None) -> None:
    """Restricts this process to user code from these modules; None: no restriction, because the caller has checked."""
    _allowed[0] = modules


class PythonKind(OperatorKind[PythonSettings]):
    """The kind of Python operators: only the user's code knows its output, and which rows replace which."""

    model = Python
    made = "rows that its code makes"
    warms_up = False  # the user's code gets no made-up rows

    def describe(self, settings: PythonSettings, inputs: Sequence[Stream]) -> Stream:
        problems, fields = Problems(), Fields()
        for index, name in enumerate(self.key(settings)):
            problems.key(f"key[{index}]", name, inputs[0].fields)
        try:
            code = _create(settings.python, settings.params)
            declared = Declared.of(code, settings.python, inputs[0].fields)
            fields = declared.fields
            field_types.schema(fields)
            answered.problems(code, settings, problems)
            if problem := declared.differs(settings.outputs):
                problems.add("outputs", *problem)
        except ValueError as error:
            problems.add("python", str(error))
        problems.check()
        return Stream(fields, outputs=declared.outputs)

    def build(self, plan: OperatorPlan, settings: PythonSettings, inputs: Sequence[Fields], tables: Tables) -> Operator:
        if settings.ask is not None:
            return AnsweredTask(plan, inputs[0])
        return PythonTask(plan, inputs[0], tables, tables.task)

    def needs(self, settings: PythonSettings) -> tuple[str, ...]:
        return ("on_error",)

    def code(self, settings: PythonSettings) -> str:
        return settings.python

    def isolated(self, settings: PythonSettings) -> bool:
        return settings.isolation == "process"

    def key(self, settings: PythonSettings) -> tuple[str, ...]:
        return settings.key

    def stateful(self, settings: PythonSettings) -> bool:
        return settings.ask is None

    def asks(self, settings: PythonSettings) -> bool:
        return settings.ask is not None

    def delivers(self, settings: PythonSettings) -> bool:
        return True  # rows at which the code raises

    def skips(self, settings: PythonSettings) -> bool:
        return _on_error(settings) == DEAD_LETTER and settings.ask is None  # then the answer decides

    def horizon_us(self, settings: PythonSettings) -> int | None:
        """The longest time behind the watermark: the code is assumed to hold its rows until the watermark has passed
        them.
        """
        return 0


def _on_error(settings: PythonSettings) -> str:
    return settings.on_error or DEAD_LETTER


@dataclass(slots=True)
class _Run:
    """A batch in progress.

    newest: its largest event time.
    decided: the rows at which the code raises, by the cut log.
    found: the rows at which the code raised so far.
    refused: refused rows, by position.
    """

    context: BatchContext
    newest: int
    out: list[pl.DataFrame]
    decided: Places | None
    found: Found = field(default_factory=Found)
    refused: list[tuple[int, str]] = field(default_factory=list)


class PythonTask:
    """A task of a Python operator.

    The plan's `on_error` decides about errors of the user's code: `dead-letter` (the default) finds the rows at fault
    by halving and refuses them, `fail` stops the job, `retry` runs the batch again. An error of on_watermark or
    on_timer is not the fault of a row: it stops the job, or the batch runs again.

    If the cut log names the rows at which the code raises, these are refused without a call; if the code raises at
    other rows, the copies differ: Divergence.

    Args:
        plan: the operator as planned.
        fields: the fields of the input.
        tables: the state of the task.
        task: seeds the random generator; default: the operator's name.

    output: the columns that the code declares.
    """

    def __init__(self, plan: OperatorPlan, fields: Mapping[str, str], tables: Tables, task: str | None = None) -> None:
        settings = plan.python
        self._reference = settings.python
        self._on_error = _on_error(settings)
        self._task = task or plan.name
        self._fields = dict(fields)
        self._code = _create(self._reference, settings.params)
        declared = Declared.of(self._code, self._reference, fields)
        self.output = declared.fields
        self._shape = declared.shape()
        self._state = State(tables)
        self._timers = Timers(tables) if has_timers(type(self._code)) else None
        self._by_clock = Timers(tables, BY_CLOCK) if settings.clock else None
        self._all_timers = [some for some in (self._timers, self._by_clock) if some is not None]

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        newest = rows[TIME].to_numpy().max(initial=NO_WATERMARK).item()
        decided = None if context.raised is None else Places(context.raised)
        run = _Run(context, newest, [self._shape.nothing], decided)
        if self._by_clock is not None:
            self._by_clock.note(context.clock_us)
        if rows.height:
            self._process(run, rows, 0)
        raised = self._raised(run)
        if rows.height:
            self._fire(run)
        if context.watermark > context.watermark_before:
            run.out.append(self._advance(run))
            self._fire(run)
        self._fire_by_clock(run)
        if context.watermark > context.watermark_before:
            self._state.expire(context.watermark)
        if raised is None:
            return Outcome(pl.concat(run.out, rechunk=True))
        places = run.decided or Places(raised)
        refused = tuple(Refused(places.reason(place), row, place=place) for place, row in run.refused)
        return Outcome(pl.concat(run.out, rechunk=True), refused=refused, raised=raised)

    def _process(self, run: _Run, rows: pl.DataFrame, start: int) -> None:
        """Runs the rows in one call, or each half in its own call if that raises.

        start: the position of the first row in the batch.
        """
        stop = start + rows.height
        if run.decided is not None and run.decided.within(start, stop):
            self._split(run, rows, start, run.decided.reason)
            return
        ctx = self._context(run, run.newest, f"{start}")
        try:
            run.out.append(self._attempt(lambda: self._code.on_batch(rows, self._state, ctx), run.newest))
        except HoldfastError:
            raise
        except Exception as error:
            if self._on_error != DEAD_LETTER:
                raise self._stopped(error, run) from error
            if run.decided is not None:
                raise self._disagrees(run, f"raised at rows {start} to {stop - 1}: {text_of(error)}") from error
            text = text_of(error)
            self._split(run, rows, start, lambda _: text)

    def _split(self, run: _Run, rows: pl.DataFrame, start: int, reason: Callable[[int], str]) -> None:
        """Handles rows at which the code raised: refuses a single row, or makes a call for each half."""
        if rows.height == 1:
            run.refused.append((start, encode_json(rows, self._fields)[0].decode()))
            run.found.row(start, reason(start))
            return
        before, middle = len(run.found), rows.height // 2
        self._process(run, rows.slice(0, middle), start)
        self._process(run, rows.slice(middle), start + middle)
        if len(run.found) == before:
            run.found.together(start, start + rows.height)

    def _raised(self, run: _Run) -> TaskRaised | None:
        """The rows at which the code raised in the batch; None: none. Raises Divergence if the cut log names other
        rows.
        """
        raised = run.found.raised()
        if run.decided is not None and raised != run.context.raised:
            raise self._disagrees(run, f"has other rows, the code would raise at {raised.rows}")
        return raised if run.found else None

    def _disagrees(self, run: _Run, what: str) -> Divergence:
        return Divergence(_DISAGREES.format(code=self._reference, batch=run.context.batch, what=what))

    def _advance(self, run: _Run) -> pl.DataFrame:
        """Calls on_watermark. At the end of the stream there is no watermark: rows get the newest known time."""
        watermark = run.context.watermark
        time = self._known(run, 0) if watermark == END_WATERMARK else watermark
        ctx = self._context(run, time, "watermark")
        if self._timers is not None and watermark == END_WATERMARK:
            self._timers.ending()
        return self._called(run, lambda: self._code.on_watermark(watermark, self._state, ctx), time)

    def _fire(self, run: _Run) -> None:
        """Calls the code for each time with timers that the watermark has reached, in the order of time.

        The result of a call does not depend on the division into batches: its time and its random numbers are its own.
        """
        if self._timers is None:
            return
        self._timers.note(run.newest)
        while (time := self._timers.due(run.context.watermark)) is not None:
            keys = self._timers.take(time, run.context.watermark)
            ctx = self._context(run, time, "timer", Random(f"{self._task}/timer/{time}"))
            found = self._called(run, partial(self._code.on_timer, time, keys, self._state, ctx), time)
            if found.height:
                run.out.append(found)

    def _fire_by_clock(self, run: _Run) -> None:
        """Calls the code for each time of day that has timers and at which, or before which, the batch was cut."""
        timers, at_end = self._by_clock, run.context.watermark == END_WATERMARK
        if timers is None or self._timers is None:
            return
        until = END_WATERMARK if at_end else timers.newest
        while (time := timers.due(until)) is not None:
            keys = timers.take(time, until)
            if at_end:
                self._timers.ending()
            known = self._known(run, time)
            ctx = self._context(run, known, "clock", Random(f"{self._task}/clock/{time}"), by_clock=True)
            found = self._called(run, partial(self._code.on_timer, time, keys, self._state, ctx), known)
            if found.height:
                run.out.append(found)

    def _known(self, run: _Run, otherwise: int) -> int:
        """The newest known event time."""
        known = max(run.newest, run.context.watermark_before)
        if run.context.watermark != END_WATERMARK:
            known = max(known, run.context.watermark)
        return otherwise if known == NO_WATERMARK else known

    def _called(self, run: _Run, call: Callable[[], Returned], time: int) -> pl.DataFrame:
        """The rows of a call without an input row."""
        try:
            return self._attempt(call, time)
        except HoldfastError:
            raise
        except Exception as error:
            raise self._stopped(error, run) from error

    def _attempt(self, call: Callable[[], Returned], time: int) -> pl.DataFrame:
        """The rows of a successful call, with its writes applied; a failed call leaves no trace."""
        try:
            found = self._shape.checked(call(), time)
        except BaseException:
            self._state.forget()
            for timers in self._all_timers:
                timers.forget()
            raise
        self._state.apply()
        for timers in self._all_timers:
            timers.apply()
        return found

    def _context(
        self, run: _Run, now_us: int, call: str, random: Random | None = None, *, by_clock: bool = False
    ) -> Context:
        self._state.begin(now_us, run.context.watermark_before)
        now = moment(now_us)
        random = random or Random(f"{self._task}/{run.context.batch}/{call}")
        batch, watermark = run.context.batch, run.context.watermark
        return Context(
            batch, watermark, random, now, timers=self._timers, by_clock=by_clock, timers_by_clock=self._by_clock
        )

    def _stopped(self, error: Exception, run: _Run) -> HoldfastError:
        text = f"{self._reference} raised in batch {run.context.batch}: {text_of(error)}"
        return Retriable(text) if self._on_error == "retry" else InvalidRecord(text)


def prepared(plan: OperatorPlan, fields: Fields) -> tuple[PythonOperator, OutputShape | SeveralShapes]:
    """The user's code of an operator that awaits answers, and the shape of its rows. Raises CodeUnavailable."""
    code = _create(plan.python.python, plan.python.params)
    return code, Declared.of(code, plan.python.python, fields).shape()


def _create(reference: str, params: Mapping[str, Any]) -> PythonOperator:
    kind = load(reference, _allowed[0])
    try:
        return kind(**params)
    except Exception as error:
        raise CodeUnavailable(f"{reference} does not take the params {dict(params)}: {text_of(error)}") from error
