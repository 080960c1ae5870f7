"""Deliveries of a job against a replay's results: the records of its sinks, and its dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.schemas import dead_letters
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import Partition
from holdfast.services.audit.comparison import Comparison
from holdfast.services.audit.recomputation import Outcome, Row
from holdfast.services.audit.recorded import Recorded
from holdfast.services.audit.recording import Recording
from holdfast.services.kernel.dataflow.sink_records import CLOSING, TENTATIVE, RowsOf, halves_of
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.kernel.plurals import plural
from holdfast.services.log.protocol import Log, Message
from holdfast.services.worker.sinks.too_large import stands_for

DEAD_LETTERS = "dead letters"


@dataclass(slots=True)
class _Stretch:
    """Part of a partition of a sink's topic that is read.

    others: number of records of other writers.
    tentative: number of tentative rows, and of records that withdraw them.
    open: keys whose newest row is tentative.
    """

    partition: Partition
    sink: OperatorPlan
    ours: RowsOf
    others: int = 0
    tentative: int = 0
    open: set[bytes] = field(default_factory=set)

    def note(self, status: str | None, key: bytes | None) -> None:
        """Counts a record that is not final, or comes while keys are open.

        status: None if the record is not of the query.
        """
        self.others += status is None
        self.tentative += status in (TENTATIVE, CLOSING)
        if status == TENTATIVE:
            self.open.add(key or b"")
        elif status is not None:
            self.open.discard(key or b"")


@dataclass(slots=True)
class _Delivered:
    """A query's rows of one batch: rows known to be committed, and rows that may be."""

    committed: list[Row] = field(default_factory=list)
    pending: list[Row] = field(default_factory=list)


class Found:
    """Records in sinks and dead letters, compared with the computed results."""

    def __init__(self, log: Log, recording: Recording) -> None:
        self._committed = recording.committed
        self._first_batch = 1
        self.notes: list[str] = []
        self.dead = Comparison(DEAD_LETTERS)
        self.queries: dict[str, Comparison] = {}
        self._query_of: dict[str, str] = {}
        self.too_large = 0
        self._letters = Partition(recording.topics.dead_letters, 0)
        self._stretches: list[_Stretch] = []
        written = [one for one in recording.plan.operators if one.kind == "sink"]
        self.notes += [
            f"{one.elsewhere}: the rows of {one.sink.query} are {'files' if one.folder else 'there'}, not compared"
            for one in written
            if one.elsewhere
        ]
        self._elsewhere = {one.name for one in written if one.elsewhere}
        sinks = [one for one in written if not one.elsewhere]
        present = log.topics({sink.sink.topic for sink in sinks})
        for sink in sinks:
            query, topic = sink.sink.query, sink.sink.topic
            if topic not in present:
                raise CommandFailed(f"topic {topic}, to which query {query} writes, is gone")
            self.queries[query] = Comparison(query, halves_of(sink))
            self._query_of[sink.name] = query
            ours = RowsOf(recording.plan.job, recording.plan.generation, query)
            self._stretches += [_Stretch(Partition(topic, index), sink, ours) for index in range(present[topic])]
            if "compact" in log.config(topic).get("cleanup.policy", ""):
                self.notes.append(f"topic {topic} is compacted: rows that newer ones replaced count as lost")
        self._recorded = Recorded(log, "replay-found", *self._bounds(log, recording))

    def close(self) -> None:
        self._recorded.close()

    def compare(self, batch: int, outcomes: Sequence[Outcome], first_batch: int) -> None:
        """Adds the computed results of a batch, and compares the records found up to it.

        first_batch: the first batch that is compared.

        Rows behind the last batch known to be committed may be present or not, but no other rows may be.
        """
        self._first_batch = first_batch
        expected = {query: _Delivered() for query in self.queries}
        letters = _Delivered()
        for outcome in outcomes:
            sure = batch <= self._committed.get(outcome.unit, 0)
            for query, rows in outcome.rows.items():
                if query not in expected:  # the query has no topic
                    continue
                (expected[query].committed if sure else expected[query].pending).extend(rows)
            dead = [Row(dead_letters.encode(letter)) for letter in outcome.dead]
            (letters.committed if sure else letters.pending).extend(dead)
        for query, some in expected.items():
            self.queries[query].expect(batch, some.committed, some.pending)
        self.dead.expect(batch, letters.committed, letters.pending)
        self._find(batch)

    def finish(self) -> None:
        """Ends the comparison. Rows of later batches are not compared: they were delivered during the replay."""
        for comparison in (*self.queries.values(), self.dead):
            comparison.finish()
        if self.too_large:
            self.notes.append(
                f"{plural(self.too_large, 'row')}, too large for their sink's topic, are dead letters and not lost"
            )
        for stretch in self._stretches:
            if stretch.tentative:
                left = f", and {plural(len(stretch.open), 'key')} not closed yet" if stretch.open else ""
                said = plural(stretch.tentative, "record")
                self.notes.append(f"{stretch.partition}: {said} of tentative results, not compared{left}")
            if stretch.others:
                self.notes.append(f"{stretch.partition}: {plural(stretch.others, 'record')} not of this job, left out")

    def _find(self, batch: int) -> None:
        """Compares the records of each partition before the first row of a later batch."""
        for stretch in self._stretches:
            comparison = self.queries[stretch.sink.sink.query]
            while (message := self._recorded.next(stretch.partition)) is not None:
                at = stretch.ours.batch(message.headers())
                if at is not None and at > batch:
                    break
                self._recorded.take(stretch.partition)
                if at is None or stretch.open:
                    stretch.note(stretch.ours.status(message.headers()), message.key())
                if at is not None and at >= self._first_batch:
                    comparison.find(at, _row(message, stretch))
        while (message := self._recorded.next(self._letters)) is not None:
            letter = dead_letters.decode(message.value() or b"")
            if letter.batch > batch:
                break
            self._recorded.take(self._letters)
            if letter.batch >= self._first_batch and letter.origin not in self._elsewhere and not self._excused(letter):
                self.dead.find(letter.batch, Row(message.value() or b""))

    def _excused(self, letter: DeadLetter) -> bool:
        """True if the dead letter replaces a row that was too large for its sink's topic, which the computation cannot
        know.
        """
        query = self._query_of.get(letter.origin)
        if query is None or not self.queries[query].excuse(letter.batch, lambda row: stands_for(letter, row.value)):
            return False
        self.too_large += 1
        return True

    def _bounds(self, log: Log, recording: Recording) -> tuple[dict[Partition, int], dict[Partition, int]]:
        """First offset, and offset behind the last, of each partition's records of this generation."""
        sinks = [stretch.partition for stretch in self._stretches]
        everything = [*sinks, self._letters]
        ends, starts = log.offsets(everything, "end"), log.offsets(everything, "start")
        first = starts | log.offsets(sinks, recording.admitted_ms)
        if recording.next_ms is not None:
            ends |= log.offsets(sinks, recording.next_ms)
        for partition in everything:
            if 0 < starts[partition] == first[partition]:
                self.notes.append(
                    f"{partition} begins at offset {starts[partition]}: what retention has deleted counts as lost"
                )
        return first, ends


def _row(message: Message, stretch: _Stretch) -> Row:
    partition = -1 if message.key() is not None else stretch.partition.index
    return Row(message.value() or b"", message.key(), partition)
