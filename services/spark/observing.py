"""Spark's counts of the input of the micro-batch that has just run.

Source: PROTOCOL 3 and 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.schemas.plans import SparkPlan
from holdfast.services.spark.operator import OBSERVED, partitions


@dataclass(frozen=True, slots=True)
class Observed:
    """unfit: records that are no rows. reached: by partition how far its rows have come, microseconds; None: no row.

    state_keys, state_bytes: that the query holds, after the micro-batch before.
    """

    unfit: int
    reached: tuple[int | None, ...]
    state_keys: int = 0
    state_bytes: int = 0


def observe(spark: SparkSession, name: str, plan: SparkPlan) -> Observed:
    """Observes the query `name`."""
    query = next(one for one in spark.streams.active if one.name == name)
    inner: Any = query._jsq
    keys, size = _state(query)
    found = inner.streamingQuery().lastExecution().observedMetrics()
    if not found.contains(OBSERVED):
        return Observed(0, (None,) * partitions(plan), keys, size)
    row = found.apply(OBSERVED)
    reached = [None if row.isNullAt(at) else int(row.getLong(at)) for at in range(1, row.length())]
    return Observed(int(row.getLong(0)), tuple(reached), keys, size)


def _state(query: StreamingQuery) -> tuple[int, int]:
    """Rows and bytes of the state of all its operators."""
    progress = query.lastProgress
    if progress is None:
        return 0, 0
    operators = progress.stateOperators
    return sum(max(0, one.numRowsTotal) for one in operators), sum(max(0, one.memoryUsedBytes) for one in operators)
