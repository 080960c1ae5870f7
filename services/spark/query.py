"""One run of an operator's query: micro-batches in, frames and commits out.

Source: PROTOCOL 12. What becomes of a micro-batch is decided in core/taking_over.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from schemas.commits import Commit, Heard, Named, Positions
from schemas.plans import SparkPlan
from schemas.topics import generation_number
from services.kernel.errors import Fenced, HoldfastError
from services.kernel.logs.decided import Author
from services.log.client_settings import client_settings
from services.spark import unfit
from services.spark.checkpoint import Planned, planned
from services.spark.commits import Commits
from services.spark.core.modes import output_mode
from services.spark.core.taking_over import Verdict, verdict
from services.spark.core.watermark import listen, lowest
from services.spark.faults import cause_of
from services.spark.frames import WRITTEN, FrameTask
from services.spark.kafka_options import source_options
from services.spark.observing import observe
from services.spark.operator import apply, decoded, output


class BatchFailed(HoldfastError):
    """A micro-batch failed; says why."""


@dataclass(slots=True)
class Query:
    """The query of one epoch.

    Args:
        generation: of the job. allow: modules that operators may come from.
        last_batch: Spark's number of the batch that ends a drain, once it is known.
    """

    spark: SparkSession
    plan: SparkPlan
    generation: str
    commits: Commits
    commits_topic: str
    bootstrap_servers: str
    epoch: int
    directory: Path
    author: Author
    allow: list[str] | None
    attempt: int = 0
    last_batch: int = -1

    @property
    def come(self) -> tuple[int, ...]:
        """A number that grows with progress."""
        return (self.commits.fold.k,)

    @property
    def _name(self) -> str:
        return f"{self.generation} {self.plan.operator} {self.epoch}"

    def start(self, *, until_now: bool = False) -> StreamingQuery:
        """Starts it; until_now: it ends by itself once it has done all that is there.

        Raises:
            OperatorFault or Spark's own errors: it cannot start.
        """
        rows = stream(self.spark, self.plan, self.bootstrap_servers, self.allow)
        writer = rows.writeStream.foreachBatch(self._on_batch).outputMode(output_mode(self.plan.emit))
        writer = writer.option("checkpointLocation", str(self.directory))
        writer = writer.trigger(availableNow=True) if until_now else writer.trigger(processingTime="0 seconds")
        return writer.queryName(self._name).start()

    def _on_batch(self, rows: DataFrame, batch: int) -> None:
        """An error is reported in one line: Spark takes an error's text apart by a pattern that overflows the stack of
        the query's thread when a Java error is quoted in it, and the query then neither runs nor ends."""
        try:
            self._decide(rows, batch)
        except Exception as error:
            raise BatchFailed(cause_of(error)) from None

    def _decide(self, rows: DataFrame, batch: int) -> None:
        self.commits.follow(0)
        match verdict(self.commits.fold, self.epoch, batch):
            case Verdict.DISCARD:
                rows.write.format("noop").mode("append").save()
            case Verdict.STOP:
                fold = self.commits.fold
                raise Fenced(f"batch {batch} of epoch {self.epoch} cannot follow {fold.k} of epoch {fold.epoch}")
            case Verdict.COMMIT:
                self._commit(rows, batch, planned(self.directory, batch))

    def _commit(self, rows: DataFrame, batch: int, note: Planned) -> None:
        fold = self.commits.fold
        self.attempt += 1
        task = FrameTask(
            bootstrap_servers=self.bootstrap_servers,
            topic=self.commits_topic,
            fields=self.plan.output,
            generation=generation_number(self.generation),
            epoch=self.epoch,
            k=fold.k + 1,
            attempt=self.attempt,
            time_us=note.time_ms * 1000,
        )
        found: list[Any] = rows.mapInArrow(task, WRITTEN).collect()
        stop = {topic: note.stop.get(topic, offsets) for topic, offsets in fold.stop.items()}
        seen = observe(self.spark, self._name, self.plan)
        dead = self._dead(fold.stop, stop) if seen.unfit else []
        heard = listen(fold.heard, [self._in_time(one) for one in seen.reached], note.time_ms)
        record = Commit(
            epoch=self.epoch,
            k=fold.k + 1,
            attempt=self.attempt,
            start=fold.stop,
            stop=stop,
            frames=tuple(Named(one["offset"], one["rows"]) for one in found),
            watermark=max(fold.watermark, self._watermark(note, heard)),
            id=self.author.next(),
            prev=fold.prev,
            records=_records(fold.stop, stop),
            final=batch == self.last_batch,
            time_ms=int(time.time() * 1000),
            dead=tuple(dead),
            heard=heard,
        )
        self.commits.propose(record)

    def _dead(self, start: Positions, stop: Positions) -> list[int]:
        """Where the dead letters of the micro-batch were put."""
        return self.commits.put(unfit.read(self.spark, self.plan, self.bootstrap_servers, start, stop))

    def _in_time(self, reached_us: int | None) -> int | None:
        """A writer says its watermark, which has the lateness in it."""
        if reached_us is None or self.plan.writers:
            return reached_us
        return reached_us - int(self.plan.lateness_s * 1_000_000)

    def _watermark(self, note: Planned, heard: Sequence[Heard]) -> int:
        """Spark's own where it has one for the time column; else the lowest of the input partitions."""
        if self.plan.timed:
            return note.watermark_us
        if not self.plan.time:
            return note.time_ms * 1000
        return lowest(heard, note.time_ms, self.plan.idle_after_s)


def stream(spark: SparkSession, plan: SparkPlan, bootstrap_servers: str, allow: list[str] | None) -> DataFrame:
    """From the topic to what the operator makes of it; raises OperatorFault or Spark's own errors."""
    options = source_options(bootstrap_servers, plan.topic, plan.first, client_settings())
    options |= {"includeHeaders": "true"} if plan.writers else {}
    records = spark.readStream.format("kafka").options(**options).load()
    return output(plan, apply(plan, decoded(plan, records), allow))


def _records(start: dict[str, dict[int, int]], stop: dict[str, dict[int, int]]) -> int:
    """Offsets between the two; markers of transactions count, too."""
    ends = [(topic, partition, offset) for topic, offsets in stop.items() for partition, offset in offsets.items()]
    return sum(offset - start[topic].get(partition, 0) for topic, partition, offset in ends)
