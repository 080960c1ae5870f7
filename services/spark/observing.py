"""What Spark has counted of the input of the micro-batch that has just run.

Source: PROTOCOL 3 and 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from schemas.plans import SparkPlan
from services.spark.operator import OBSERVED, partitions


@dataclass(frozen=True, slots=True)
class Observed:
    """unfit: records that are no rows. reached: by partition how far its rows have come, microseconds; None: no row."""

    unfit: int
    reached: tuple[int | None, ...]


def observe(spark: SparkSession, name: str, plan: SparkPlan) -> Observed:
    """Of the query `name`."""
    query = next(one for one in spark.streams.active if one.name == name)
    inner: Any = query._jsq
    found = inner.streamingQuery().lastExecution().observedMetrics()
    if not found.contains(OBSERVED):
        return Observed(0, (None,) * partitions(plan))
    row = found.apply(OBSERVED)
    reached = [None if row.isNullAt(at) else int(row.getLong(at)) for at in range(1, row.length())]
    return Observed(int(row.getLong(0)), tuple(reached))
