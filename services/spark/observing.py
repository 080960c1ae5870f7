"""Spark's counts of the input of the micro-batch that has just run.

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

    read: records. unfit: those of them that are no rows. reached: by partition how far its rows have come,
    microseconds; None: no row.
    reported: what Spark says of the micro-batches before.
    """

    read: tuple[int, ...]
    unfit: tuple[int, ...]
    reached: tuple[tuple[int | None, ...], ...]
    reported: Reported = NOTHING


def observe(spark: SparkSession, name: str, plan: SparkPlan) -> Observed:
    """Observes the query `name`."""
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
    """Report on the newest micro-batch that has run; Spark makes reports, too, while nothing comes.

    Rows and bytes of the state are those of all its operators.
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
