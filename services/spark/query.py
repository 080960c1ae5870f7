"""A run of an operator's query: micro-batches in, frames out.

Source: PROTOCOL 12. The copy in the host's loop decides on each micro-batch when the run asks it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.schemas.commits import Heard, Named, Positions
from holdfast.schemas.plans import SparkInput, SparkPlan
from holdfast.schemas.topics import generation_number
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.log.kafka.client_settings import client_settings
from holdfast.services.spark import unfit
from holdfast.services.spark.checkpoint import Planned, planned
from holdfast.services.spark.core.modes import output_mode
from holdfast.services.spark.core.watermark import listen, lowest
from holdfast.services.spark.engine import Answer, BatchAsked, Discard, Output, Refused, Write
from holdfast.services.spark.faults import cause_of
from holdfast.services.spark.frames import WRITTEN, FrameTask
from holdfast.services.spark.kafka_options import source_options
from holdfast.services.spark.observing import Observed, observe
from holdfast.services.spark.operator import output, result_of
from holdfast.services.spark.records import partitions


class BatchFailed(HoldfastError):
    """A micro-batch failed, for the reason in the message."""


@dataclass(slots=True)
class Query:
    """The query of one epoch.

    Args:
        generation: generation of the job.
        allow: modules that operators may come from.
        ask: waits for the answer to a BatchAsked or an Output; raises when the run must end.
        put: appends records to the commit log for a commit; returns their offsets.
        save: saves the files of the checkpoint for the micro-batch that is about to be committed.
    """

    spark: SparkSession
    plan: SparkPlan
    generation: str
    commits_topic: str
    bootstrap_servers: str
    epoch: int
    directory: Path
    allow: list[str] | None
    ask: Callable[[BatchAsked | Output], Answer]
    put: Callable[[Sequence[bytes]], list[int]]
    save: Callable[[Write], None]

    @property
    def _name(self) -> str:
        return f"{self.generation} {self.plan.operator} {self.epoch}"

    def start(self, *, until_now: bool = False) -> StreamingQuery:
        """Starts the query. With `until_now`, the query ends when all present input is processed.

        Raises:
            OperatorFault or Spark's own errors: the query cannot start.
        """
        rows = stream(self.spark, self.plan, self.bootstrap_servers, self.allow)
        writer = rows.writeStream.foreachBatch(self._on_batch).outputMode(output_mode(self.plan.emit))
        writer = writer.option("checkpointLocation", str(self.directory))
        writer = writer.trigger(availableNow=True) if until_now else writer.trigger(processingTime="0 seconds")
        return writer.queryName(self._name).start()

    def _on_batch(self, rows: DataFrame, batch: int) -> None:
        """Runs a micro-batch and reports an error in one line. Spark matches the text of an error against a pattern
        that overflows the stack of the query's thread if the text quotes a Java error; the query then neither runs nor
        ends."""
        try:
            self._decide(rows, batch)
        except Exception as error:
            raise BatchFailed(cause_of(error)) from None

    def _decide(self, rows: DataFrame, batch: int) -> None:
        answer = self.ask(BatchAsked(batch))
        if isinstance(answer, Discard):
            rows.write.format("noop").mode("append").save()
            return
        if isinstance(answer, Write):
            output = self._written(rows, planned(self.directory, batch), answer)
            self.save(answer)  # its files come before the commit, as its frames do
            answer = self.ask(output)
        if isinstance(answer, Refused):
            raise BatchFailed(answer.cause)

    def _written(self, rows: DataFrame, note: Planned, write: Write) -> Output:
        """Writes the output of a micro-batch to the commit log and returns it."""
        before = write.log
        task = FrameTask(
            bootstrap_servers=self.bootstrap_servers,
            topic=self.commits_topic,
            fields=self.plan.output,
            generation=generation_number(self.generation),
            epoch=self.epoch,
            k=write.k,
            attempt=write.attempt,
            time_us=note.time_ms * 1000,
        )
        found: list[Any] = rows.mapInArrow(task, WRITTEN).collect()
        stop = {topic: note.stop.get(topic, offsets) for topic, offsets in before.stop.items()}
        seen = observe(self.spark, self._name, self.plan)
        return outcome(
            self.plan,
            write,
            replace(note, stop=stop),
            seen,
            frames=tuple(Named(one["offset"], one["rows"]) for one in found),
            dead=tuple(self._dead(seen, before.stop, stop)),
        )

    def _dead(self, seen: Observed, start: Positions, stop: Positions) -> list[int]:
        """Offsets of the dead letters of the micro-batch, which it appends."""
        letters = [
            letter
            for one, count in zip(self.plan.inputs, seen.unfit, strict=True)
            if count
            for letter in unfit.read(self.spark, one, self.plan.operator, self.bootstrap_servers, start, stop)
        ]
        return self.put(letters) if letters else []


def outcome(
    plan: SparkPlan,
    write: Write,
    note: Planned,
    seen: Observed,
    *,
    frames: tuple[Named, ...],
    dead: tuple[int, ...],
) -> Output:
    """The output of a micro-batch whose frames and dead letters are in the commit log. `note` holds the ends of its
    input."""
    before = write.log
    inputs = list(zip(plan.inputs, seen.reached, strict=True))
    heard = listen(before.heard, [_in_time(one, at) for one, reached in inputs for at in reached], note.time_ms)
    return Output(
        k=write.k,
        attempt=write.attempt,
        stop=note.stop,
        frames=frames,
        watermark=max(before.watermark, _watermark(plan, note, heard)),
        taken={one.topic: count for one, count in zip(plan.inputs, seen.read, strict=True)},
        dead=dead,
        heard=heard,
        reported=seen.reported,
    )


def _in_time(given: SparkInput, reached_us: int | None) -> int | None:
    """The watermark of a partition, in microseconds. A writer's watermark includes the lateness already."""
    if reached_us is None or given.writers:
        return reached_us
    return reached_us - int(given.lateness_s * 1_000_000)


def _watermark(plan: SparkPlan, note: Planned, heard: Sequence[Heard]) -> int:
    """Spark's own watermark if it has one for the time column; otherwise the lowest of the input partitions."""
    if plan.timed:
        return note.watermark_us
    if not plan.time:
        return note.time_ms * 1000
    idle = [one.idle_after_s for one in plan.inputs for _ in range(partitions(one))]
    return lowest(heard, note.time_ms, idle)


def stream(spark: SparkSession, plan: SparkPlan, bootstrap_servers: str, allow: list[str] | None) -> DataFrame:
    """The operator's output as a stream over its topics. Raises OperatorFault or Spark's own errors."""

    def records(given: SparkInput) -> DataFrame:
        options = source_options(bootstrap_servers, given.topic, given.first, client_settings())
        options |= {"includeHeaders": "true"} if given.writers else {}
        return spark.readStream.format("kafka").options(**options).load()

    return output(plan, result_of(plan, records, allow))
