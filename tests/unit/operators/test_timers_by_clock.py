"""Timers by the time of day fire by the times at which batches were cut, and by nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from holdfast import Context, PythonOperator, State
from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.errors import InvalidRecord
from holdfast.services.kernel.operators.operator import BatchContext
from holdfast.services.kernel.operators.python import PythonTask
from tests.support.tables import DictTables

MODULE = "timers_by_clock_of_a_test"
FIELDS = {"src": "int"}
END = END_WATERMARK


@pytest.fixture(autouse=True)
def module() -> Iterator[ModuleType]:
    made = sys.modules[MODULE] = ModuleType(MODULE)
    yield made
    del sys.modules[MODULE]


class Alarm(PythonOperator):
    """A timer ten microseconds after each row came, and one by event time as far behind the row."""

    output = {"src": "int", "kind": "string", "clock": "timestamp"}  # noqa: RUF012 - as users write it

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> None:
        for src, time in batch.select("src", "_time").iter_rows():
            now = (ctx.clock - datetime(1970, 1, 1, tzinfo=UTC)).microseconds
            ctx.set_timer(src, now + 10, clock=True)
            ctx.set_timer(src, time + 10)
            if src == 7:
                ctx.cancel_timer(src, now + 10, clock=True)

    def on_timer(self, time_us: int, keys: list[int], state: State, ctx: Context) -> pl.DataFrame:
        if ctx.by_clock and 3 in keys:
            ctx.set_timer(3, time_us + 5, clock=True)
            ctx.set_timer(33, 20)
        if 13 in keys:
            ctx.set_timer(0, 999, clock=True)
            raise ValueError("thirteen")
        kind = "clock" if ctx.by_clock else "event"
        return pl.DataFrame([(key, kind, ctx.clock) for key in keys], schema(self.output), orient="row")


class Run:
    """A task over batches, each of rows (src, time), a time at which it was cut and a watermark."""

    def __init__(self, clock: bool = True, code: type[PythonOperator] = Alarm) -> None:
        vars(sys.modules[MODULE])["Code"] = code
        settings = {"python": f"{MODULE}:Code", "params": {}, "clock": clock}
        self._plan = OperatorPlan("op", "python", 1, ("in",), settings, dict(Alarm.output))
        self.tables, self.watermark, self.batch = DictTables(), NO_WATERMARK, 0
        self.restore()

    def restore(self) -> None:
        self.task = PythonTask(self._plan, FIELDS, self.tables)

    def do(self, clock_us: int, rows: Sequence[tuple[int, int]] = (), watermark: int | None = None) -> list[Any]:
        self.batch += 1
        before, self.watermark = self.watermark, self.watermark if watermark is None else watermark
        frame = pl.DataFrame(rows, with_time(schema(FIELDS)), orient="row")
        context = BatchContext(self.batch, before, self.watermark, clock_us=clock_us)
        found = self.task.on_batch([frame], context).rows
        return [(*row[:2], row[2].microsecond, row[3]) for row in found.rows()]


def test_a_timer_fires_in_the_first_batch_that_was_cut_at_its_time_or_later() -> None:
    run = Run()
    assert run.do(100, [(1, 5), (7, 5)]) == []
    assert run.do(109) == []
    run.restore()
    assert run.do(112) == [(1, "clock", 112, 110)], "no event time is known there: the rows have the timer's"
    assert run.do(200, watermark=15) == [(1, "event", 200, 15), (7, "event", 200, 15)], "7 took back its other timer"
    assert run.do(300, [(2, 40)]) == []
    assert run.do(310) == [(2, "clock", 310, 15)], "the newest event time that is known in a batch without rows"


def test_the_clock_never_goes_back() -> None:
    run = Run()
    assert run.do(100, [(1, 5)]) == []
    run.restore()
    assert run.do(50, [(2, 5)]) == [], "a leader whose clock is behind cut it"
    assert run.do(109) == []
    assert [row[:3] for row in run.do(110)] == [(1, "clock", 110), (2, "clock", 110)]


def test_at_the_end_every_timer_fires_and_chains_end() -> None:
    run = Run()
    assert run.do(100, [(3, 5)]) == []
    assert [row[:2] for row in run.do(113)] == [(3, "clock")], "and sets its next timers, of which one has passed"
    assert [row[:2] for row in run.do(114, [(4, 6)], watermark=END)] == [
        (3, "event"),
        (4, "event"),
        (33, "event"),
        (3, "clock"),
        (4, "clock"),
    ]
    assert [key for key in run.tables.table("/timers").entries if key] == []
    assert [key for key in run.tables.table("/timers-by-clock").entries if key] == []


def test_a_call_that_raises_stops_the_job_and_leaves_the_timers() -> None:
    run = Run()
    run.do(100, [(13, 5)])
    before = dict(run.tables.table("/timers-by-clock").entries)
    with pytest.raises(InvalidRecord, match="thirteen"):
        run.do(110)
    left = dict(run.tables.table("/timers-by-clock").entries)
    assert {key for key in left if key} == {key for key in before if key}


def test_code_that_asks_for_the_time_without_saying_so_stops_the_job_and_is_told_what_to_write() -> None:
    with pytest.raises(InvalidRecord, match="say `clock: true` for its operator in the job file"):
        Run(clock=False).do(100, [(1, 5)])
