"""A Python operator's task whose code runs in another process; implements `Operator`.

The state is in the worker. The process requests values that it does not know and returns its writes with the outcome. A
batch whose process ends during it has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import RowCodec
from holdfast.services.kernel.operators.operator import BatchContext, Outcome
from holdfast.services.kernel.operators.raises import NOTHING
from holdfast.services.kernel.operators.user_timers import PREFIX_BYTES
from holdfast.services.kernel.state.table import Table, Tables
from holdfast.services.worker.isolated.code_process import CodeEnded, CodeProcess, Patience, error_of
from holdfast.services.worker.isolated.messages import Batch, Done, Found, Get, More, Opened, Page, Raised, Scan

PAGE_BYTES = 4 * 1024 * 1024
"""Size of a page of entries of a table, in bytes."""


class IsolatedTask:
    """An isolated task on one image. Another image gets another task with the same process.

    Args:
        fields: columns of the input.
        patience_s: time limit of the present batch.
        crashed: returns the error to raise, from the batch and the end of the process.
        done: called with each finished batch.
    """

    def __init__(
        self,
        plan: OperatorPlan,
        fields: Mapping[str, str],
        tables: Tables,
        process: CodeProcess,
        patience_s: Callable[[], float],
        crashed: Callable[[int, CodeEnded], Exception],
        done: Callable[[int], object],
    ) -> None:
        self._input = RowCodec(stream_schema(fields))
        self._output = RowCodec(stream_schema(plan.fields))
        self._nothing = stream_schema(plan.fields).to_frame()
        self._tables = tables
        self._process = process
        self._patience_s = patience_s
        self._crashed = crashed
        self._done = done
        self._clocked = plan.python.clock
        self._opened: list[Table] = []
        self._scanned: Iterator[tuple[bytes, bytes]] = iter(())
        self._fresh = True

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        """Sends the batch to the process and returns its outcome. Raises the error of `crashed`, or the error of the
        task's code."""
        (rows,) = inputs
        moves = context.watermark > context.watermark_before or self._clocked
        if not rows.height and not moves and context.raised in (None, NOTHING):
            return Outcome(self._nothing)
        try:
            outcome = self._exchange(rows, context)
            self._process.look()
        except CodeEnded as ended:
            raise self._crashed(context.batch, ended) from None
        except BaseException:
            self._process.end()  # in the middle of the batch
            raise
        if isinstance(outcome, Raised):
            raise error_of(outcome)
        self._done(context.batch)
        return outcome

    def _exchange(self, rows: pl.DataFrame, context: BatchContext) -> Outcome | Raised:
        begin = Batch(context, self._fresh)
        self._fresh = False
        self._process.send(begin, self._input.pack(rows))
        patience = Patience(self._patience_s())
        while True:
            message, payload = self._process.receive(patience)
            if isinstance(message, Done):
                return self._finish(message, payload)
            if isinstance(message, Raised):
                return message
            if isinstance(message, Opened):
                raise self._process.broken("it says again that its code is loaded")
            self._process.send(self._answer(message))

    def _answer(self, question: Get | Scan | More) -> Found | Page:
        if isinstance(question, More):
            return self._page()
        table = self._table(question.opened, question.table)
        if isinstance(question, Get):
            return Found(table.get_many(question.keys))
        self._scanned = table.scan(question.prefix)
        return self._page()

    def _page(self) -> Page:
        entries, size = [], 0
        for entry in self._scanned:
            entries.append(entry)
            size += len(entry[0]) + len(entry[1])
            if size >= PAGE_BYTES:
                return Page(entries, True)
        return Page(entries, False)

    def _finish(self, done: Done, payload: bytes) -> Outcome:
        """Repeats the task's writes call by call, so that the state is equal to the last byte."""
        found = self._rows(payload)
        self._open(done.opened)
        tables = [self._at(put.table) for put in done.writes]
        if any(put.values is not None and len(put.values) != len(put.keys) for put in done.writes):
            raise self._process.broken("it sent more keys than values, or fewer")
        for table, put in zip(tables, done.writes, strict=True):
            if put.values is None:
                table.delete_many(put.keys)
            else:
                table.put_many(put.keys, put.values)
        return replace(done.outcome, rows=found)

    def _rows(self, payload: bytes) -> pl.DataFrame:
        """The rows that the process sent. Raises CodeEnded if they do not have the declared columns."""
        try:
            if payload:
                self._output.check(payload, full=True)
            return self._output.decode(payload)
        except ValueError as error:
            raise self._process.broken(f"it sent what are {error}") from None

    def _table(self, opened: Sequence[str], number: int) -> Table:
        self._open(opened)
        return self._at(number)

    def _open(self, names: Sequence[str]) -> None:
        self._opened += [self._tables.table(name, PREFIX_BYTES.get(name, 0)) for name in names]

    def _at(self, number: int) -> Table:
        if not 0 <= number < len(self._opened):
            raise self._process.broken(f"it asks for table {number} of {len(self._opened)}")
        return self._opened[number]
