"""Inputs of a job, for a replay: the valid cuts, batch by batch, and the users' records in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.schemas import cuts
from holdfast.schemas.cuts import Cut
from holdfast.schemas.plans import SourcePlan
from holdfast.schemas.topics import Partition
from holdfast.services.audit.recorded import Recorded
from holdfast.services.audit.recording import Recording
from holdfast.services.audit.sources import Taken
from holdfast.services.decisions.cuts import of_plan
from holdfast.services.kernel.codecs.metadata import NOTHING_WANTED, Wanted
from holdfast.services.kernel.dataflow.cut_records import NO_RECORDS, Records
from holdfast.services.kernel.dataflow.source_records import wanted_of
from holdfast.services.kernel.errors import CommandFailed, StateCorrupted
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.log.protocol import Log, Message


class Cuts:
    """The valid cuts, batch by batch."""

    def __init__(self, log: Log, recording: Recording) -> None:
        self._partition = Partition(recording.topics.cuts, 0)
        self._skipped = recording.skipped.get(self._partition, frozenset())
        ends = log.offsets([self._partition], "end")
        self._recorded = Recorded(log, "replay-cuts", {self._partition: recording.base.upto}, ends)
        self._log = of_plan(recording.plan, recording.base)
        self._waiting: dict[tuple[str, int], Cut] = {}

    def close(self) -> None:
        self._recorded.close()

    def upto(self, batch: int) -> Iterator[Cut]:
        """The cuts up to this batch: where the log begins, a source task may be behind the others."""
        for task in self._log.tasks:
            while self._log.task(task).batch < batch and self._recorded.next(self._partition) is not None:
                self._read(self._recorded.take(self._partition))
        early = sorted((name for name in self._waiting if name[1] <= batch), key=lambda name: name[1])
        yield from (self._waiting.pop(name) for name in early)

    def batch(self, batch: int, tasks: Sequence[str]) -> dict[str, Cut]:
        """The present cuts of the tasks for the batch, by task."""
        wanted = {task: (task, batch) for task in tasks}
        while any(name not in self._waiting for name in wanted.values()):
            if self._recorded.next(self._partition) is None:
                break
            self._read(self._recorded.take(self._partition))
        return {task: self._waiting.pop(name) for task, name in wanted.items() if name in self._waiting}

    def _read(self, message: Message) -> None:
        """Reads a record of the cut log; a record that cannot be decoded is invalid and skipped."""
        if message.offset() in self._skipped:
            return
        try:
            record = cuts.decode(message.value() or b"")
        except msgspec.DecodeError:
            return
        if self._log.read(message.offset(), record) and isinstance(record, Cut):
            self._waiting[record.task, record.batch] = record


class Sources:
    """The user's records in the cuts, with a reader for each source, because two sources may share a topic."""

    def __init__(self, log: Log, recording: Recording) -> None:
        self._topics: dict[str, str] = {}
        self._starts: dict[Partition, int] = {}
        self._first: dict[Partition, int] = {}
        self._recorded: dict[str, Recorded] = {}
        self._wanted: dict[str, Wanted] = {}
        known = log.describe({source.topic for source in recording.plan.sources})
        operators = {one.name: one for one in recording.plan.operators}
        for source in recording.plan.sources:
            if source.topic not in known:
                raise CommandFailed(f"topic {source.topic}, which source {source.operator} reads, is gone")
            if source.topic_id and known[source.topic].id not in ("", source.topic_id):
                raise CommandFailed(_REPLACED.format(topic=source.topic, source=source.operator), _STATE)
            stops = {r.partition: r.stop for task in _tasks_of(source) for r in recording.base.tasks[task].ranges}
            first = {Partition(source.topic, i): stops.get(i, 0) for i in range(known[source.topic].partitions)}
            starts, ends = log.offsets(first, "start"), log.offsets(first, "end")
            self._first |= first
            self._starts |= starts
            positions = {partition: max(offset, starts[partition]) for partition, offset in first.items()}
            recorded = Recorded(log, f"replay-{source.operator}", positions, ends)
            wanted = wanted_of(operators[source.operator].source)
            for index in range(len(source.owners)):
                self._topics[f"{source.operator}-{index}"] = source.topic
                self._recorded[f"{source.operator}-{index}"] = recorded
                self._wanted[f"{source.operator}-{index}"] = wanted

    def close(self) -> None:
        for recorded in set(self._recorded.values()):
            recorded.close()

    def take(self, task: str, cut: Cut) -> Taken:
        """Takes the records of a cut. Raises CommandFailed if records are deleted."""
        topic, recorded = self._topics[task], self._recorded[task]
        ranges = [(Partition(topic, r.partition), r) for r in cut.ranges]
        if any(min(r.stop, self._starts[p]) - r.start > r.lost for p, r in ranges):
            raise self._gone()
        try:
            found = [(recorded.below(p, r.stop), r) for p, r in ranges]
            wanted = self._wanted[task]
            return Taken(cut, [NO_RECORDS if r.lost else records_of(messages, wanted) for messages, r in found])
        except StateCorrupted as error:
            raise CommandFailed(f"retention was faster: {error}", _LONGER) from None

    def _gone(self) -> CommandFailed:
        gone = [
            f"{partition}: {self._first[partition]} to {start - 1}"
            for partition, start in sorted(self._starts.items())
            if start > self._first[partition]
        ]
        return CommandFailed(f"retention has deleted records that were cut, offsets {', '.join(gone)}", _LONGER)


def _tasks_of(source: SourcePlan) -> list[str]:
    return [task_name(source.operator, index) for index in range(len(source.owners))]


_REPLACED = (
    "topic {topic}, which source {source} reads, was deleted and created again: the records that the job took in are "
    "gone, so nothing of it can be computed again"
)
_STATE = "what was delivered stands; a job submitted again can be replayed from its first record"
_LONGER = "a longer retention.ms of the topic keeps a job replayable; of a compacted one, min.compaction.lag.ms"


def records_of(messages: Sequence[Message], wanted: Wanted = NOTHING_WANTED) -> Records:
    """Messages as records.

    wanted: metadata that columns of the source hold.
    """
    values = [message.value() for message in messages]
    keys = {at: messages[at].key() for at, value in enumerate(values) if value is None} if None in values else {}
    return Records(
        [message.offset() for message in messages],
        values,
        [message.timestamp()[1] for message in messages],
        keys,
        metadata_keys=[message.key() for message in messages] if wanted.keys else (),
        headers=[message.headers() for message in messages] if wanted.headers else (),
    )
