"""One run of an operator's query in real-time mode: Spark reads, computes and writes by itself.

Source: PROTOCOL 12. Where a run begins is read from what was written, see kernel/marked; Spark's checkpoint is not
used: in this mode it says nothing before a batch ends.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from schemas.plans import SparkPlan
from schemas.topics import Partition
from services.kernel.errors import StateCorrupted
from services.kernel.marked import ORIGIN, lanes
from services.log.client_settings import client_settings
from services.log.protocol import Log
from services.spark.commits import Commits
from services.spark.kafka_options import sink_options, source_options
from services.spark.operator import written
from services.spark.rewriting import MARKED, rewritten

BATCH = "30 minutes"
"""Of Spark's own batches, between which it pauses: nothing here waits for their ends."""


@dataclass(slots=True)
class RealTimeQuery:
    """The query of one epoch. directory: for what Spark insists on keeping; no other run sees it."""

    spark: SparkSession
    plan: SparkPlan
    generation: str
    log: Log
    commits: Commits
    commits_topic: str
    bootstrap_servers: str
    epoch: int
    directory: Path
    runs: int = 0

    def start(self, *, until_now: bool = False) -> StreamingQuery:
        """Starts it; until_now: in micro-batches, and it ends by itself once it has done all that is there.

        Raises:
            StateCorrupted: what was written is none of Spark's rows.
            Spark's own errors: it cannot start.
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
        """How far it has come: it grows."""
        return tuple(self.ends().values())

    def ends(self) -> dict[int, int]:
        """By lane, where what was written ends."""
        found = self.log.offsets([Partition(self.commits_topic, lane) for lane in lanes(self.plan.first)], "end")
        return {partition.index: offset for partition, offset in sorted(found.items(), key=lambda one: one[0].index)}

    def _first(self) -> dict[int, int]:
        """Behind the record of each lane's last row: whoever wrote that, had written all before it."""
        first = dict(self.plan.first)
        for lane in lanes(self.plan.first):
            last = self.log.last(Partition(self.commits_topic, lane))
            if last is not None:
                first[lane - 1] = _origin(last.value() or b"") + 1
        return first


def _origin(value: bytes) -> int:
    try:
        return int(json.loads(value)[ORIGIN])
    except (ValueError, KeyError, TypeError) as error:
        raise StateCorrupted(f"no row of Spark: {error}") from None
