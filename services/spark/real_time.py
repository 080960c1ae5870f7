"""A run of an operator's query in real-time mode, in which Spark reads, computes and writes by itself.

Source: PROTOCOL 12. The start of a run is derived from its written output, see kernel/marked. Spark's checkpoint is not
used, because in this mode it holds nothing before a batch ends.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.schemas.plans import SparkPlan
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.codecs.marked import ORIGIN, RowReader, lanes
from holdfast.services.log.kafka.client_settings import client_settings
from holdfast.services.log.protocol import Log
from holdfast.services.spark.kafka_options import sink_options, source_options
from holdfast.services.spark.operator import written
from holdfast.services.spark.rewriting import MARKED, rewritten

BATCH = "30 minutes"
"""Length of Spark's own batches, between which Spark pauses; no code here waits for their ends."""

FIRST_STRETCH = 64
"""Number of records of a lane in which the last row is first searched for."""


@dataclass(slots=True)
class RealTimeQuery:
    """The query of one epoch. `directory` is for files that Spark requires; no other run reads it."""

    spark: SparkSession
    plan: SparkPlan
    generation: str
    log: Log
    commits_topic: str
    bootstrap_servers: str
    epoch: int
    directory: Path
    runs: int = 0

    def start(self, *, until_now: bool = False) -> StreamingQuery:
        """Starts the query. With `until_now`, the query uses micro-batches and ends when all present input is
        processed.

        Raises:
            Spark's own errors: the query cannot start.
        """
        self.runs += 1
        shutil.rmtree(self.directory.parent, ignore_errors=True)
        options = source_options(self.bootstrap_servers, self.plan.topic, self._first(), client_settings())
        if not until_now:
            del options["maxOffsetsPerTrigger"]
        records = self.spark.readStream.format("kafka").options(**options).load()
        rows = written(self.plan, rewritten(self.plan, records), MARKED)
        writer = rows.writeStream.format("kafka").outputMode("update")
        writer = writer.options(**sink_options(self.bootstrap_servers, self.commits_topic, client_settings()))
        writer = writer.option("checkpointLocation", str(self.directory / str(self.runs)))
        writer = writer.trigger(availableNow=True) if until_now else writer.trigger(realTime=BATCH)  # type: ignore[call-overload]
        return writer.queryName(f"{self.generation} {self.plan.operator} {self.epoch}").start()

    @property
    def come(self) -> tuple[int, ...]:
        """Numbers that grow with progress."""
        return tuple(self.ends().values())

    def ends(self) -> dict[int, int]:
        """The end of the output, by lane."""
        found = self.log.offsets([Partition(self.commits_topic, lane) for lane in lanes(self.plan.first)], "end")
        return {partition.index: offset for partition, offset in sorted(found.items(), key=lambda one: one[0].index)}

    def _first(self) -> dict[int, int]:
        """The first offsets of a run: behind the record of each lane's last row, because its writer had written
        everything before."""
        first = dict(self.plan.first)
        ends = self.log.offsets([Partition(self.plan.topic, index) for index in self.plan.first], "end")
        for lane in lanes(self.plan.first):
            end = ends[Partition(self.plan.topic, lane - 1)]
            origin = last_origin(self.log, self.plan, Partition(self.commits_topic, lane), end)
            if origin is not None:
                first[lane - 1] = origin + 1
        return first


def last_origin(log: Log, plan: SparkPlan, lane: Partition, end: int) -> int | None:
    """The offset of the record from which the last row of a lane was made; None for a lane without rows.

    Skipped are records that are not rows, rows made from no record, and rows of a record at or behind `end`, the end of
    the input partition. A run that begins too early creates no duplicates.
    """
    start, stop = (log.offsets([lane], which)[lane] for which in ("start", "end"))
    stretch, rows = FIRST_STRETCH, RowReader(plan.output, 0)
    while stop > start:
        begin = max(start, stop - stretch)
        below = [message for message in log.scan(lane, begin) if message.offset() < stop]
        found = rows.sound([message.offset() for message in below], [message.value() for message in below])
        true = found.get_column(ORIGIN).filter(found.get_column(ORIGIN) < end)
        if len(true):
            return int(true[-1])
        stop, stretch = begin, stretch * 4
    return None
