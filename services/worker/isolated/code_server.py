"""The process's side: loads the code of one task, then does batch after batch with it.

It runs the same task class as a worker (kernel/operators/python.py), so halving, seeds and batch time are equal; only
its tables and rows come from the worker.
"""

from __future__ import annotations

import gc

import polars as pl

from holdfast.schemas.plans import OperatorPlan
from holdfast.services.hosting.plugins import from_folder
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import RowCodec
from holdfast.services.kernel.errors import HoldfastError, InvalidRecord
from holdfast.services.kernel.operators.catalogue import OPERATORS
from holdfast.services.kernel.operators.operator import BatchContext
from holdfast.services.kernel.operators.python import PythonTask, restrict
from holdfast.services.worker.isolated.channel import Channel, MessageTooLarge, PeerEnded
from holdfast.services.worker.isolated.messages import (
    Batch,
    Done,
    Found,
    Get,
    More,
    Open,
    Opened,
    Page,
    Raised,
    Scan,
    decode_from_worker,
    encode,
)
from holdfast.services.worker.isolated.tables import KeysOfBatch, KnownTables


def serve(channel: Channel) -> None:
    """Serves until the worker closes its side."""
    try:
        opening = decode_from_worker(channel.receive()[0])
        assert isinstance(opening, Open)
        restrict(opening.allow)
        from_folder(opening.allow)
        try:
            code = _Code(channel, opening)
        except HoldfastError as error:
            channel.send(encode(_raised(error)))
            return
        gc.freeze()
        channel.send(encode(Opened(code.output)))
        while True:
            body, rows = channel.receive()
            batch = decode_from_worker(body)
            assert isinstance(batch, Batch)
            code.do(batch, rows)
    except PeerEnded:
        return


class _Code:
    """A task in this process; `output` holds the columns that its code declares."""

    def __init__(self, channel: Channel, opening: Open) -> None:
        self._channel = channel
        self._opening = opening
        plan = opening.plan
        self._key = OPERATORS[plan.kind].key(plan.settings)
        self._input = RowCodec(stream_schema(opening.fields))
        self._begin_again()
        self.output = self._task.output
        self._output = RowCodec(stream_schema(self.output))
        self._used = False

    def _begin_again(self) -> None:
        """Replaces the user's object by a new one, and the tables by tables without known values."""
        plan: OperatorPlan = self._opening.plan
        self._tables = KnownTables(self._opening.task, self._ask)
        self._task = PythonTask(plan, self._opening.fields, self._tables, self._opening.task)

    def do(self, batch: Batch, payload: bytes) -> None:
        if batch.fresh and self._used:
            self._begin_again()
        self._used = True
        rows = self._input.decode(payload)
        self._tables.begin(KeysOfBatch(rows, self._key))
        try:
            self._send(rows, batch.context)
        except HoldfastError as error:
            self._channel.send(encode(_raised(error)))
        except MessageTooLarge as error:
            self._channel.send(encode(_raised(InvalidRecord(f"what batch {batch.context.batch} puts out is {error}"))))

    def _send(self, rows: pl.DataFrame, context: BatchContext) -> None:
        outcome = self._task.on_batch([rows], context)
        done = Done(self._tables.newly_opened(), self._tables.writes, outcome)
        self._channel.send(encode(done), self._output.pack(outcome.rows))

    def _ask(self, question: Get | Scan | More) -> Found | Page:
        self._channel.send(encode(question))
        answer = decode_from_worker(self._channel.receive()[0])
        assert isinstance(answer, Found | Page)
        return answer


def _raised(error: HoldfastError) -> Raised:
    return Raised(type(error).__name__, str(error))
