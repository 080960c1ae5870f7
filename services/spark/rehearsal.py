"""The rehearsal of a standby: runs the query over the newest few records and writes nothing.

Source: PROTOCOL 12, "a standby driver has session, code and Kafka connections up". Most of the time of a query's first
micro-batch is spent only once in a process: loading classes, generating and compiling code, starting Python workers.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

from holdfast.schemas.plans import SparkInput, SparkPlan
from holdfast.schemas.topics import Partition, generation_number
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.log.protocol import Log
from holdfast.services.spark.core.modes import output_mode
from holdfast.services.spark.faults import cause_of
from holdfast.services.spark.frames import WRITTEN, FrameTask
from holdfast.services.spark.observing import observe
from holdfast.services.spark.query import BatchFailed, stream

RECORDS = 20
"""Records read of each partition, including markers of transactions."""
AGAIN_S = 40.0
"""Time between rehearsals. Spark ends a Python worker after a minute without work, and brokers close idle
connections.
"""
MOST_S = 60.0
LOOK_S = 0.05
CLEAR_S = 10.0
"""Time for deleting files: an interrupted task writes for a moment after its query has ended."""

_log = get_logger()


@dataclass(slots=True)
class Rehearsal:
    """The rehearsal of one operator.

    Attributes:
        folder: folder for its checkpoints, shared with every worker of Spark.
        allow: as in `Query`.
        idle: True if it succeeded without any record.
    """

    spark: SparkSession
    plan: SparkPlan
    generation: str
    log: Log
    commits_topic: str
    bootstrap_servers: str
    folder: Path
    allow: list[str] | None
    idle: bool = False
    _batches: int = 0

    def run(self, wanted: Callable[[], bool]) -> None:
        """Runs until it is done, cancelled or too slow. Faults are left for the query itself to report."""
        ends = time.monotonic() + MOST_S
        try:
            self._play(lambda: wanted() and time.monotonic() < ends)
        except Exception as error:
            _log.info("rehearsal failed", unit=self.plan.unit, cause=cause_of(error))
        finally:
            self._clear()

    def _clear(self) -> None:
        """Deletes its folder. The next rehearsal deletes leftovers."""
        ends = time.monotonic() + CLEAR_S
        shutil.rmtree(self.folder, ignore_errors=True)
        while self.folder.exists() and time.monotonic() < ends:
            time.sleep(LOOK_S)
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _name(self) -> str:
        return f"{self.generation} {self.plan.operator} rehearsal"

    def _play(self, wanted: Callable[[], bool]) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        own, *more = (msgspec.structs.replace(one, first=self._newest(one)) for one in self.plan.inputs)
        newest = msgspec.structs.replace(self.plan, first=own.first, more=tuple(more))
        writer = stream(self.spark, newest, self.bootstrap_servers, self.allow).writeStream
        writer = writer.foreachBatch(self._on_batch).outputMode(output_mode(self.plan.emit))
        checkpoint = self.folder / secrets.token_hex(4)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        running = writer.queryName(self._name).start()
        try:
            through = False
            while wanted() and not through:
                through = bool(running.awaitTermination(LOOK_S))  # type: ignore[arg-type]
            self.idle = through and not self._batches
        finally:
            running.stop()

    def _newest(self, given: SparkInput) -> dict[int, int]:
        partitions = [Partition(given.topic, index) for index in given.first]
        ends, starts = self.log.offsets(partitions, "end"), self.log.offsets(partitions, "start")
        return {one.index: max(given.first[one.index], starts[one], ends[one] - RECORDS) for one in partitions}

    def _on_batch(self, rows: DataFrame, batch: int) -> None:
        """Reports an error in one line, like `Query`."""
        try:
            self._rehearse(rows, batch)
        except Exception as error:
            raise BatchFailed(cause_of(error)) from None

    def _rehearse(self, rows: DataFrame, batch: int) -> None:
        """Runs the steps of a micro-batch's commit in `Query`, without writing."""
        task = FrameTask(
            bootstrap_servers=self.bootstrap_servers,
            topic=self.commits_topic,
            fields=self.plan.output,
            generation=generation_number(self.generation),
            epoch=0,
            k=batch + 1,
            attempt=0,
            time_us=0,
            rehearsed=True,
        )
        rows.mapInArrow(task, WRITTEN).collect()
        observe(self.spark, self._name, self.plan)
        self._batches += 1
