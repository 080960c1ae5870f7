"""Python operators with an async `on_batch`: the cut log decides their answers before any row is made.

Below the cut a task reads the answer of its batch and calls no code. The cutting copy makes the answer with
`Questions`. Source: JOBS "Python operators", PROTOCOL 4, decision 0225.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import iscoroutinefunction
from random import Random
from typing import Any, NoReturn, cast

import polars as pl

from holdfast.schemas.answers import Answer
from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.operator_settings import PythonSettings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import RowCodec
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.operators.kind import Problems
from holdfast.services.kernel.operators.moments import moment
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Outcome, Refused
from holdfast.services.kernel.operators.user_code import Context, PythonOperator, Returned, has_timers
from holdfast.services.kernel.operators.user_output import OutputShape, SeveralShapes
from holdfast.services.kernel.operators.user_state import State


class NoState:
    """The state of code that awaits answers: it refuses all access, because an answer may depend only on the cut
    log.
    """

    def __getattr__(self, name: str) -> NoReturn:
        raise TypeError("code that awaits answers keeps no state: put an operator with state before or behind it")


def problems(code: PythonOperator, settings: PythonSettings, found: Problems) -> None:
    """Notes contradictions in the section of an operator."""
    kind, ask = type(code), settings.ask
    awaits = iscoroutinefunction(kind.on_batch)
    if ask is None:
        if awaits:
            found.add("python", "its on_batch is an async def", "say how it asks: `ask: {}` takes the defaults")
        return
    if not awaits:
        found.add("ask", "its on_batch is no async def", "leave `ask` out, or await the answers in an async def")
    if has_timers(kind) or kind.on_watermark is not PythonOperator.on_watermark:
        message = "code that awaits answers has on_batch alone"
        found.add("python", message, "put on_timer and on_watermark in an operator behind it")
    if settings.isolation == "process":
        message = "code that awaits answers runs beside the worker's loop"
        found.add("isolation", message, "leave it out")
    if settings.clock:
        found.add("clock", "code that awaits answers has no timers", "leave it out")


class Questions:
    """The rows of one task for one batch, divided into calls of the user's code.

    Args:
        code: the operator of the user.
        watermark: the watermark after the batch.
        most: the most rows of a call.
    """

    def __init__(
        self,
        code: PythonOperator,
        shape: OutputShape | SeveralShapes,
        task: str,
        rows: pl.DataFrame,
        *,
        batch: int,
        watermark: int,
        most: int,
    ) -> None:
        self._code = code
        self._shape = shape
        self._task = task
        self._rows = rows
        self._batch = batch
        self._watermark = watermark
        self._most = most
        self._found: dict[int, pl.DataFrame] = {}
        self._refused: dict[int, str] = {}

    @property
    def open(self) -> list[int]:
        """The positions of the calls without an answer."""
        known = self._found.keys() | self._refused.keys()
        return [start for start in range(0, self._rows.height, self._most) if start not in known]

    async def call(self, start: int) -> pl.DataFrame:
        """Makes one call. Raises the errors of the code."""
        rows = self._rows.slice(start, self._most)
        newest = rows[TIME].to_numpy().max(initial=NO_WATERMARK).item()
        random = Random(f"{self._task}/{self._batch}/{start}")
        now = moment(max(newest, 0))
        ctx = Context(self._batch, self._watermark, random, now)
        awaited: Any = self._code.on_batch(rows, cast("State", NoState()), ctx)
        found: Returned = await awaited
        return self._shape.checked(found, newest)

    def answered(self, start: int, rows: pl.DataFrame) -> None:
        self._found[start] = rows

    def refuse(self, reason: str) -> None:
        """Refuses the rows of the calls without an answer."""
        self._refused |= dict.fromkeys(self.open, reason)

    def answer(self, codec: RowCodec) -> Answer:
        """The rows of all calls, in the order of the batch."""
        found = [self._found[start] for start in sorted(self._found)]
        rows = pl.concat([self._shape.nothing, *found], rechunk=True)
        refused = tuple(
            (place, reason)
            for start, reason in sorted(self._refused.items())
            for place in range(start, min(start + self._most, self._rows.height))
        )
        return Answer(codec.encode(rows) if rows.height else b"", refused)


class AnsweredTask:
    """A task whose answers are in the cut log; implements Operator.

    Args:
        plan: the operator as planned.
        fields: the fields of the input.
    """

    def __init__(self, plan: OperatorPlan, fields: Mapping[str, str]) -> None:
        self._fields = dict(fields)
        self._codec = RowCodec(stream_schema(plan.fields))
        self._nothing = stream_schema(plan.fields).to_frame()

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        if not rows.height:
            return Outcome(self._nothing)
        answer = context.answer
        assert answer is not None, f"batch {context.batch} is done without its answer"
        found = self._codec.decode(answer.rows) if answer.rows else self._nothing
        refused = tuple(
            Refused(reason, encode_json(rows.slice(place, 1), self._fields)[0].decode(), place=place)
            for place, reason in answer.refused
        )
        return Outcome(found, refused=refused)
