"""Timers of a Python operator fire in the order of their times, whatever the batches are and wherever they restore."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Context, PythonOperator, State
from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.errors import InvalidRecord
from holdfast.services.kernel.operators.operator import BatchContext
from holdfast.services.kernel.operators.python import PythonTask
from tests.golden import sessions
from tests.support.examples import examples
from tests.support.tables import DictTables

MODULE = "timers_of_a_test"
SECOND = 1_000_000
FIELDS = {"src": "int", "id": "int"}


@pytest.fixture(scope="module", autouse=True)
def module() -> Iterator[ModuleType]:
    made = sys.modules[MODULE] = ModuleType(MODULE)
    yield made
    del sys.modules[MODULE]


class Run:
    """A task over batches, each of rows (src, time) and a watermark; it may be restored before any of them."""

    def __init__(self, code: type[PythonOperator], **params: Any) -> None:
        vars(sys.modules[MODULE])["Code"] = code
        settings = {"python": f"{MODULE}:Code", "params": params}
        assert isinstance(code.output, Mapping)
        self._plan = OperatorPlan("op", "python", 1, ("in",), settings, dict(code.output))
        self.tables, self.watermark, self.batch = DictTables(), NO_WATERMARK, 0
        self.restore()

    def restore(self) -> None:
        self._task = PythonTask(self._plan, FIELDS, self.tables)

    def do(self, rows: Sequence[tuple[int, int]], watermark: int | None = None) -> list[tuple[Any, ...]]:
        self.batch += 1
        before, self.watermark = self.watermark, self.watermark if watermark is None else watermark
        frame = pl.DataFrame([(src, 0, time) for src, time in rows], with_time(schema(FIELDS)), orient="row")
        return self._task.on_batch([frame], BatchContext(self.batch, before, self.watermark)).rows.rows()


class Alarm(PythonOperator):
    """Sets a timer for the time of each row's id, and says when it fires; what it does then is given."""

    output = {"src": "int", "at": "timestamp"}  # noqa: RUF012 - as users write it

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> None:
        for src, time in batch.select("src", "_time").iter_rows():
            ctx.set_timer(src, time + 10)
            if src == 7:
                ctx.cancel_timer(src, datetime(1970, 1, 1, 0, 0, 0, time + 10, UTC))

    def on_timer(self, time_us: int, keys: list[int], state: State, ctx: Context) -> pl.DataFrame:
        if 13 in keys:
            ctx.set_timer("never", time_us + 1)
            raise ValueError("thirteen")
        if 9 in keys:
            ctx.set_timer(9, time_us)
        return pl.DataFrame({"src": keys, "at": [ctx.now] * len(keys)}, schema_overrides={"src": pl.Int64})


def at(micros: int) -> datetime:
    return datetime(1970, 1, 1, 0, 0, 0, micros, UTC)


def test_a_timer_fires_once_the_watermark_has_reached_it() -> None:
    run = Run(Alarm)
    assert run.do([(2, 5), (1, 5), (1, 5), (3, 6), (7, 6)], watermark=14) == []
    run.restore()
    assert run.do([], watermark=15) == [(1, at(15), 15), (2, at(15), 15)]
    assert run.do([(4, 1)]) == [(4, at(11), 11)], "its time has passed: it fires in the same batch"
    assert run.do([(5, 50)], watermark=END_WATERMARK) == [(3, at(16), 16), (5, at(60), 60)]
    assert [key for key in run.tables.table("/timers").entries if key] == [], "7 took its timer back"


def test_a_call_that_raises_stops_the_job_and_leaves_its_timers() -> None:
    run = Run(Alarm)
    before = run.do([(13, 5)]), dict(run.tables.table("/timers").entries)
    with pytest.raises(InvalidRecord, match=r"ValueError: thirteen \(test_timers.py, line \d+, in on_timer\)"):
        run.do([], watermark=20)
    assert ([], run.tables.table("/timers").entries) == before
    run = Run(Alarm)
    with pytest.raises(InvalidRecord, match="not after its own time 15"):
        run.do([(9, 5)], watermark=20)


def test_an_operator_without_on_timer_is_told_what_is_missing() -> None:
    class Forgetful(PythonOperator):
        output = {"src": "int"}  # noqa: RUF012

        def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> None:
            state.table("/timers") if batch["src"][0] else ctx.set_timer(1, 2)

    run = Run(Forgetful)
    assert "need a method on_timer" in _refused(run, 0)
    assert "begins with a slash" in _refused(run, 1)


def _refused(run: Run, src: int) -> str:
    frame = pl.DataFrame([(src, 0, 1)], with_time(schema(FIELDS)), orient="row")
    (refused,) = run._task.on_batch([frame], BatchContext(1, NO_WATERMARK, NO_WATERMARK)).refused
    return refused.reason


def _quiet(rows: Sequence[tuple[int, int]], after: int, every: int) -> list[tuple[Any, ...]]:
    """The rows of `Quiet` over all packets at once, without their chances."""
    found: list[tuple[Any, ...]] = []
    for src, time in set(rows):
        of_src = [one for other, one in rows if other == src]
        if not any(time < one < time + after for one in of_src):
            found.append((src, sum(one < time + after for one in of_src), time + after))
    newest = max(time for _, time in rows)
    tick = (min(time for _, time in rows) // every + 1) * every
    while tick - every <= newest:
        found.append((None, sum(time < tick for _, time in rows), tick))
        tick += every
    return sorted(found, key=str)


@examples(each_run=60, with_long=300)
@given(
    times=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12)), min_size=1, max_size=14),
    cuts=st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=8),
)
def test_timers_give_the_same_in_any_batches(times: list[tuple[int, int]], cuts: list[tuple[int, bool]]) -> None:
    """The rows come in the order of time, so none is behind the watermark."""
    rows = sorted(((src, time * SECOND) for src, time in times), key=lambda row: row[1])
    whole, cut = (Run(sessions.Quiet, after_s=2, every_s=3) for _ in range(2))
    left, given = rows, []
    for size, restored in cuts:
        part, left = left[:size], left[size:]
        given += cut.do(part, part[-1][1] if part else None)
        if restored:
            cut.restore()
    given += cut.do(left, END_WATERMARK)
    found = whole.do(rows, END_WATERMARK)
    assert sorted(given, key=str) == sorted(found, key=str), "chances and times of rows, too"
    assert sorted((row[:3] for row in found), key=str) == _quiet(rows, 2 * SECOND, 3 * SECOND)
