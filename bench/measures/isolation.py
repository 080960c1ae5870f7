"""Cost of a Python operator's code in a process of its own: the same batches here and there, in turn.

In one thread, without a cluster: the work of a worker's loop for a batch, from rows to rows.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.scale import Scale
from holdfast import Context, PythonOperator, State
from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.plans import OperatorPlan, UnitPlan
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.operator import BatchContext, Operator
from holdfast.services.kernel.plans.layout import TaskLayout, UnitLayout
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.process.usage import resident_bytes
from holdfast.services.worker.isolated.code import IsolatedCode
from holdfast.services.worker.isolated.isolation import Isolation

FIELDS = {"user": "string", "amount": "int"}
TASK = "o-0"
KEYS = 1_000
SIZES = {"small": 20, "large": 10_000}
BATCHES = 200
KINDS = ("stateless", "stateful")


class Scores(PythonOperator):
    """A column computed from columns, with the least work for each row."""

    output = {"user": "string", "score": "float"}  # noqa: RUF012 - as users write it

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        return batch.select("user", "_time", score=pl.col("amount") / 60)


class Sums(PythonOperator):
    """A running sum by key, read and written once for each key of a batch."""

    output = {"user": "string", "total": "int"}  # noqa: RUF012

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        sums = batch.group_by("user", maintain_order=True).agg(pl.col("amount").sum(), pl.col("_time").max())
        users, table = sums["user"].to_list(), state.table("sums")
        before = table.get_many(users, 0)
        totals = [had + more for had, more in zip(before, sums["amount"].to_list(), strict=True)]
        table.put_many(zip(users, totals, strict=True))
        return sums.select("user", "_time", total=pl.Series(totals))


CODE: dict[str, type[PythonOperator]] = {"stateless": Scores, "stateful": Sums}


def isolation(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Milliseconds of a batch in the worker and in a process of its own, the difference, the ratio of records/s, and
    the cost of the process.
    """
    figures: Figures = {}
    for kind in KINDS:
        for size, count in SIZES.items():
            figures |= {f"{kind}_{size}_{what}": value for what, value in _compared(kind, count).items()}
    return figures | _start()


def _plan(kind: str) -> OperatorPlan:
    params = {"python": f"bench.measures.isolation:{CODE[kind].__name__}", "key": ["user"], "isolation": "process"}
    output: Any = CODE[kind].output
    return OperatorPlan("o", "python", 1, ("in",), params, output)


def _code(kind: str) -> IsolatedCode:
    layout = UnitLayout(UnitPlan(TASK, 0, ("o",), 0), (TaskLayout(TASK, 0, _plan(kind), (), (FIELDS,), (), None),))
    return IsolatedCode(layout, Isolation(patience_s=60.0), lambda: False, str)


def _compared(kind: str, count: int) -> Figures:
    """Medians over batches that both do in turn."""
    code = _code(kind)
    code.start()
    try:
        here, there = _task(kind, catalogue.build), _task(kind, code.build)
        chance, times = random.Random(count), list[tuple[float, float]]()
        for batch in range(1, BATCHES + 1):
            rows, context = _rows(chance, count), BatchContext(batch, NO_WATERMARK, NO_WATERMARK)
            times.append((_ms(here, [rows], context), _ms(there, [rows], context)))
    finally:
        code.close()
    here_ms, there_ms = (statistics.median(one[side] for one in times[BATCHES // 10 :]) for side in (0, 1))
    return {
        "here_ms": round(here_ms, 3),
        "there_ms": round(there_ms, 3),
        "added_ms": round(there_ms - here_ms, 3),
        "records_per_s_there_over_here": round(here_ms / there_ms, 3),
    }


def _task(kind: str, build: catalogue.Build) -> Operator:
    return build(_plan(kind), [FIELDS], StateStore(MemoryImage()).of_task(TASK))


def _rows(chance: random.Random, count: int) -> pl.DataFrame:
    drawn = np.random.default_rng(chance.getrandbits(32))
    users = [f"user-{number}" for number in drawn.integers(0, KEYS, count)]
    return pl.DataFrame([users, drawn.integers(0, 1_000, count), np.arange(count)], stream_schema(FIELDS))


def _ms(task: Operator, inputs: Sequence[pl.DataFrame], context: BatchContext) -> float:
    began = time.perf_counter_ns()
    task.on_batch(inputs, context)
    return (time.perf_counter_ns() - began) / 1_000_000


def _start() -> Figures:
    """Start of a process: the time until its code is loaded, and its memory then."""
    times, sizes = list[float](), list[int]()
    for _ in range(5):
        code = _code("stateless")
        times.append(_seconds(code.start))
        (pid,) = code.pids.values()
        sizes.append(resident_bytes(pid))
        code.close()
    return {"start_s": round(statistics.median(times), 3), "resident_mb": round(statistics.median(sizes) / 1_000_000)}


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
