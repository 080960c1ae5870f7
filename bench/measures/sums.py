"""Cost of exact sums of floats: an aggregate of floats compared with one of ints, on equal batches in turns.

In one thread, without a cluster: the CPU time of a batch within the operator.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import polars as pl

from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.scale import Scale
from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.operator import BatchContext, Operator
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore

FIELDS = {"key": "int", "price": "float", "cents": "int"}
SHAPES = {"20_keys_1000": (20, 1_000), "1000_keys_10000": (1_000, 10_000), "10000_keys_10000": (10_000, 10_000)}
"""Keys, and records of a batch."""
BATCHES = 60


def sums(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Medians over batches that both do by turns, and the median of their ratios."""
    figures: Figures = {}
    for shape, (keys, count) in SHAPES.items():
        of_floats, of_ints, times = _task("price"), _task("cents"), list[tuple[float, float]]()
        for batch in range(1, BATCHES + 1):
            rows = _rows(batch, keys, count)
            first, second = (of_floats, of_ints) if batch % 2 else (of_ints, of_floats)
            took = {id(task): _ms(task, rows, batch) for task in (first, second)}
            times.append((took[id(of_floats)], took[id(of_ints)]))
        settled = times[BATCHES // 10 :]
        figures |= {
            f"{shape}_floats_ms": round(statistics.median(one[0] for one in settled), 3),
            f"{shape}_ints_ms": round(statistics.median(one[1] for one in settled), 3),
            f"{shape}_floats_over_ints": round(statistics.median(one[0] / one[1] for one in settled), 3),
        }
    return figures


def _task(column: str) -> Operator:
    params = {
        "aggregate": {"total": f"sum({column})", "n": "count()"},
        "key": ["key"],
        "window": None,
        "emit": "updates",
    }
    kind = "float" if column == "price" else "int"
    plan = OperatorPlan("o", "aggregate", 1, ("in",), params, {"key": "int", "total": f"{kind}?", "n": "int"})
    return catalogue.build(plan, [FIELDS], StateStore(MemoryImage()).of_task("o-0"))


def _rows(seed: int, keys: int, count: int) -> pl.DataFrame:
    drawn = np.random.default_rng(seed)
    cents = drawn.integers(0, 100_000, count)
    return pl.DataFrame([drawn.integers(0, keys, count), cents / 100, cents, np.arange(count)], stream_schema(FIELDS))


def _ms(task: Operator, rows: pl.DataFrame, batch: int) -> float:
    began = time.process_time_ns()
    task.on_batch([rows], BatchContext(batch, NO_WATERMARK, NO_WATERMARK))
    return (time.process_time_ns() - began) / 1_000_000
