"""Spark's counts of the input of the last micro-batch.

Source: PROTOCOL 3 and 12.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.schemas.plans import SparkInput, SparkPlan
from holdfast.services.spark.engine import NOTHING, Reported
from holdfast.services.spark.records import observed, partitions

RAN = "addBatch"
"""Spark's name for the time of the micro-batch's own work."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Counts by input, in the order of the plan.

    Attributes:
        read: number of records.
        unfit: number of records that are not rows.
        reached: newest time of the rows by partition, microseconds; None without a row.
        reported: Spark's report on earlier micro-batches.
    """

    read: tuple[int, ...]
    unfit: tuple[int, ...]
    reached: tuple[tuple[int | None, ...], ...]
    reported: Reported = NOTHING


def observe(spark: SparkSession, name: str, plan: SparkPlan) -> Observed:
    """Reads the counts of the query `name`."""
    query = next(one for one in spark.streams.active if one.name == name)
    inner: Any = query._jsq
    found = inner.streamingQuery().lastExecution().observedMetrics()
    counts = [_of_input(found, observed(index), one) for index, one in enumerate(plan.inputs)]
    read, unfit, reached = zip(*counts, strict=True)
    return Observed(read, unfit, reached, _reported(query))


def _of_input(found: Any, name: str, given: SparkInput) -> tuple[int, int, tuple[int | None, ...]]:
    if not found.contains(name):
        return 0, 0, (None,) * partitions(given)
    row = found.apply(name)
    reached = (None if row.isNullAt(at) else int(row.getLong(at)) for at in range(2, row.length()))
    return int(row.getLong(0)), int(row.getLong(1)), tuple(reached)


def _reported(query: StreamingQuery) -> Reported:
    """The report on the newest micro-batch with work; Spark also reports while no input comes.

    Keys and bytes of the state are sums over all its operators.
    """
    inner: Any = query._jsq
    recent = inner.recentProgress()
    ran = (one for one in (recent[at] for at in range(len(recent) - 1, -1, -1)) if one.durationMs().containsKey(RAN))
    if (newest := next(ran, None)) is None:
        return NOTHING
    progress = StreamingQueryProgress.fromJson(json.loads(newest.json()))
    operators = progress.stateOperators
    return Reported(
        batch=progress.batchId,
        state_keys=sum(max(0, one.numRowsTotal) for one in operators),
        state_bytes=sum(max(0, one.memoryUsedBytes) for one in operators),
        late=sum(max(0, one.numRowsDroppedByWatermark) for one in operators),
        parts_ms={part: float(took_ms) for part, took_ms in progress.durationMs.items()},
    )
