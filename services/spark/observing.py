"""Spark's counts of the input of the micro-batch that has just run.

Source: PROTOCOL 3 and 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.schemas.plans import SparkInput, SparkPlan
from holdfast.services.spark.records import observed, partitions


@dataclass(frozen=True, slots=True)
class Observed:
    """Counts by input, in the order of the plan.

    unfit: records that are no rows. reached: by partition how far its rows have come, microseconds; None: no row.
    state_keys, state_bytes: that the query holds, after the micro-batch before.
    """

    unfit: tuple[int, ...]
    reached: tuple[tuple[int | None, ...], ...]
    state_keys: int = 0
    state_bytes: int = 0


def observe(spark: SparkSession, name: str, plan: SparkPlan) -> Observed:
    """Observes the query `name`."""
    query = next(one for one in spark.streams.active if one.name == name)
    inner: Any = query._jsq
    keys, size = _state(query)
    found = inner.streamingQuery().lastExecution().observedMetrics()
    counts = [_of_input(found, observed(index), one) for index, one in enumerate(plan.inputs)]
    unfit, reached = zip(*counts, strict=True)
    return Observed(unfit, reached, keys, size)


def _of_input(found: Any, name: str, given: SparkInput) -> tuple[int, tuple[int | None, ...]]:
    if not found.contains(name):
        return 0, (None,) * partitions(given)
    row = found.apply(name)
    return int(row.getLong(0)), tuple(
        None if row.isNullAt(at) else int(row.getLong(at)) for at in range(1, row.length())
    )


def _state(query: StreamingQuery) -> tuple[int, int]:
    """Rows and bytes of the state of all its operators."""
    progress = query.lastProgress
    if progress is None:
        return 0, 0
    operators = progress.stateOperators
    return sum(max(0, one.numRowsTotal) for one in operators), sum(max(0, one.memoryUsedBytes) for one in operators)
