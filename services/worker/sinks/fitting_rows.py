"""Selects the rows of a transaction that their topics accept. A row that is too large alone becomes a dead letter.

Source: PROTOCOL 9, docs/decisions/0139.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.schemas.cuts import END_WATERMARK
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.dead_letters import encode as encode_dead
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import JobTopics
from holdfast.services.kernel.dataflow.sink_records import RowsOf, for_spark, halves_of, sink_records
from holdfast.services.kernel.dataflow.unit import SinkRows
from holdfast.services.kernel.errors import InvalidRecord, Refused, Retriable
from holdfast.services.log.protocol import Log, Rows
from holdfast.services.log.record_sizes import CLIENT_BYTES, largest
from holdfast.services.worker.sinks.folder_names import split_unnamed
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.refusals import Refusals
from holdfast.services.worker.sinks.sql_rows import split_unstorable
from holdfast.services.worker.sinks.too_large import parted, split_large

DEFAULT_MAX_BYTES = 1_048_588  # Kafka's default limit of a record


@dataclass(slots=True)
class FittingRows:
    """Selects the rows of one unit that fit. With `dead_letters`, a row that is too large becomes a dead letter;
    otherwise it raises InvalidRecord."""

    log: Log
    topics: JobTopics
    meter: Meter
    refusals: Refusals
    dead_letters: bool

    def of(self, batches: Iterable[Batch]) -> tuple[list[Rows], int]:
        """The rows that fit by the known limits, with dead letters; and the number of rows that are too large.

        Raises:
            InvalidRecord: a row is too large, and the job has no dead letters.
        """
        rows: list[Rows] = []
        too_large = 0
        for batch in batches:
            letters = list(batch.dead)
            for sink in batch.sinks:
                operator, kept = sink.task.operator, None
                if operator.elsewhere:
                    large = (split_unstorable if operator.table else split_unnamed)(sink, batch.number)[1]
                else:
                    kept, large = self._split(self._sink_rows(sink, batch), operator, batch.number)
                if large and not self.dead_letters:
                    raise InvalidRecord(large[0].reason)
                rows += [] if kept is None else [kept]
                letters += large
                too_large += len(large)
            rows += self._dead_rows(letters)
        return rows, too_large

    def tentative(self, sink: SinkRows, batch: int, fidelity: float, unit: str) -> Rows:
        """Tentative rows, without those known to be too large for their topic."""
        plan, found = sink.task.operator.sink, sink_records(sink.task, sink.rows, batch)
        headers = self._rows_of(plan.query).tentative_headers(batch, fidelity, unit, sink.watermark)
        rows = Rows(plan.topic, found.values, found.keys, found.partitions, headers=headers, own_headers=found.headers)
        return self._split(rows, sink.task.operator, batch)[0]

    def closing(self, sink: OperatorPlan, batch: int, ids: Sequence[bytes]) -> Rows:
        """Records without a value that close the tentative rows with these ids."""
        headers = self._rows_of(sink.sink.query).closing_headers(batch)
        return Rows(sink.sink.topic, [None] * len(ids), list(ids), headers=headers)

    def _rows_of(self, query: str) -> RowsOf:
        return RowsOf(self.topics.job, self.topics.generation, query)

    def too_large(self, error: InvalidRecord, topics: Iterable[str]) -> Retriable:
        """The error for a batch of records that Kafka refused for its size. The next producer makes batches that fit,
        and rows that are too large alone become dead letters. This producer cannot continue: librdkafka 2.16 sends
        later batches under a sequence number that the broker does not expect.

        Args:
            topics: topics of the transaction.
        """
        new = self.refusals.learn({topic: self._limit(topic) for topic in topics})
        return Retriable(str(error)) if new else Refused(str(error))

    def _split(self, rows: Rows, sink: OperatorPlan, batch: int) -> tuple[Rows, list[DeadLetter]]:
        limit, most = self.refusals.limits.get(rows.topic, CLIENT_BYTES), largest(rows)
        if most <= limit:
            return rows, []
        if limit < CLIENT_BYTES:  # somebody may have raised it meanwhile
            limit = self._limit(rows.topic)
            self.refusals.learn({rows.topic: limit})
        if (halves := halves_of(sink)) is not None:
            rows = parted(rows, limit, halves)
        return split_large(rows, limit, sink.name, batch)

    def _limit(self, topic: str) -> int:
        """The most bytes of a batch of records of the topic."""
        config = self.log.config(topic)
        if not config:  # the topic has just refused a row, so it exists; the broker that answered does not know it
            raise Retriable(f"the settings of {topic} are not known")
        return min(int(config.get("max.message.bytes", DEFAULT_MAX_BYTES)), CLIENT_BYTES)

    def _dead_rows(self, dead: Sequence[DeadLetter]) -> list[Rows]:
        letters = [encode_dead(letter) for letter in dead]
        return [Rows(self.topics.dead_letters, letters, partitions=[0] * len(letters))] if letters else []

    def _sink_rows(self, sink: SinkRows, batch: Batch) -> Rows:
        plan, found = sink.task.operator.sink, sink_records(sink.task, sink.rows, batch.number)
        self.meter.wrote(sink.task.operator.name, found.values)
        headers = self._rows_of(plan.query).headers(batch.number, batch.skipped)
        if for_spark(sink.task.operator) and sink.watermark != END_WATERMARK:
            headers.append(("watermark", str(sink.watermark).encode()))
        return Rows(plan.topic, found.values, found.keys, found.partitions, headers=headers, own_headers=found.headers)
