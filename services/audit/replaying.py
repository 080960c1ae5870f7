"""Replaying: a job computed again from what the log holds, and compared with what its sinks hold.

Source: PROTOCOL 14.2, JOBS `holdfast replay`. Only reads, and needs nothing but a `Log`: it checks a run on Kafka and
one in memory alike. What it needs of a job are its plan, its whole cut log and the user's records that were cut.

A sink's record names query and batch, but neither job nor generation. The records of a generation are taken to be those
from the time of its plan to the time of the next plan of that job: an earlier generation is fenced before it ends, and
a later one is admitted only then. Another job that writes the same query name to the same topic cannot be
distinguished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

import msgspec

from schemas import cuts, dead_letters, delivered
from schemas.cuts import Cut, CutsSnapshot, Raised, TaskRaised
from schemas.dead_letters import DeadLetter
from schemas.plans import OperatorPlan, Plan, SourcePlan
from schemas.progress import decode as decode_progress
from schemas.topics import ClusterTopics, JobTopics, Partition
from services.audit.comparing import Comparison, Counts, Difference
from services.audit.computing import Outcome, Replay, Row, Taken, WhereRaised
from services.audit.recorded import Recorded
from services.audit.settling import Settling, check_settles
from services.kernel.dataflow.cut_records import NO_RECORDS, Records
from services.kernel.dataflow.sink_records import RowsOf
from services.kernel.errors import USAGE, CommandFailed, Divergence, StateCorrupted
from services.kernel.logs.admitted import Admitted, Skipped
from services.kernel.logs.admitted import decode as decode_decision
from services.kernel.logs.cut_snapshots import newest_in
from services.kernel.logs.cuts import of_plan
from services.kernel.logs.raises import may_raise
from services.kernel.plans.layout import task_name
from services.kernel.suggestions import suggest
from services.kernel.versions import library_versions
from services.log.cut_logs import cuts_base
from services.log.jobs import read_admitted, read_jobs
from services.log.protocol import Log, Message
from services.worker.sinks.position import newest_cut
from services.worker.sinks.too_large import stands_for

DEAD_LETTERS = "dead letters"


@dataclass(frozen=True, slots=True)
class Report:
    """batches: how many were run again; every row up to there that is known to be committed was compared.

    differences: the first of each stream. notes: what a reader of the counts should know. Of all batches that
    were run again, late_dropped: records dropped as late, by stream (services/view/losses.py), records_lost: those that
    were gone before they were read, by source; what they would have changed counts as computed without them.
    """

    job: str
    generation: str
    batches: int
    rows: Counts
    dead_letters: Counts
    differences: list[Difference]
    notes: list[str]
    late_dropped: dict[str, int] = field(default_factory=dict)
    records_lost: dict[str, int] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        return self.rows.exact and self.dead_letters.exact


@dataclass(frozen=True, slots=True)
class Recording:
    """A generation as the log holds it. next_ms: when the next generation of that job was admitted.

    committed: by unit, the last batch whose rows are known to be committed. skipped: records that a person has decided
    to pass over. base: the state with which the cut log begins.
    """

    plan: Plan
    topics: JobTopics
    admitted_ms: int
    next_ms: int | None
    committed: dict[str, int]
    skipped: Skipped
    base: CutsSnapshot

    @property
    def first(self) -> int:
        """The batch before the first one of which all cuts are left."""
        return newest_in(self.base)

    @property
    def batches(self) -> int:
        return max(self.committed.values(), default=0)


def replay(
    log: Log,
    topics: ClusterTopics,
    job: str,
    *,
    generation: str = "",
    first_batch: int = 1,
    progress: Callable[[int, int], None] = lambda batch, batches: None,
    run_by: Callable[[Plan, JobTopics], Replay] = Replay,
) -> Report:
    """Runs a job again, up to the last batch that it has delivered.

    Args:
        job: its name, or name@generation. generation: default: the newest that was admitted.
        first_batch: compares from this batch on; all before are run again as well.
        progress: called with the batch done and the last one.
        run_by: makes what computes the job; a test may hand in one that has computed it already.

    Raises:
        CommandFailed: there is no such job, or the log no longer holds what it was made of.
        CodeUnavailable: a Python operator cannot be loaded here.
        OtherRecords: the user's topic holds other records than those that were cut.
    """
    recording = find(log, topics, job, generation)
    notes, first = _version_notes(recording.plan), recording.first
    run = Replay(recording.plan, recording.topics, first=first) if first else run_by(recording.plan, recording.topics)
    settling = Settling(recording.plan, recording.base)
    run.raised = where_raised(log, recording)
    compared = 0
    late, lost = Counter[str](), Counter[str]()
    with (
        closing(_Sources(log, recording)) as sources,
        closing(_Cuts(log, recording)) as decided,
        closing(_Found(log, recording)) as found,
    ):
        for cut in decided.upto(first):
            sources.take(cut.task, cut)
            run.passes(cut)
            settling.passes(cut)
        for batch in range(first + 1, recording.batches + 1):
            uncut = run.uncut
            taken = decided.batch(batch, uncut)
            outcomes = _processed(run, {task: sources.take(task, cut) for task, cut in taken.items()})
            _check_cut(recording, run, batch, sorted(set(uncut) - set(taken)))
            for outcome in outcomes:
                late.update(outcome.dropped)
                lost.update(outcome.lost)
            settled = not first or settling.settled(taken.values())
            if settled and batch >= first_batch:
                compared = compared or batch
                found.compare(batch, outcomes, compared)
            progress(batch, recording.batches)
        found.finish()
    if first:
        notes.append(_from_there_on(first, compared))
    return Report(
        job=recording.plan.job,
        generation=recording.plan.generation,
        batches=recording.batches,
        rows=sum((one.counts for one in found.queries.values()), Counts()),
        dead_letters=found.dead.counts,
        differences=[d for one in (*found.queries.values(), found.dead) for d in one.differences],
        notes=notes + found.notes,
        late_dropped=dict(+late),
        records_lost=dict(+lost),
    )


def _processed(run: Replay, taken: Mapping[str, Taken]) -> list[Outcome]:
    try:
        return run.process(taken)
    except Divergence as error:
        raise CommandFailed(str(error), "replay with the code and the libraries that the job had") from None


def _from_there_on(first: int, compared: int) -> str:
    kept = f"the cut log is kept for replay_horizon_s and begins behind batch {first}"
    if not compared:
        return f"{kept}: nothing could be compared, since no result is made of later batches alone yet"
    return f"{kept}: compared from batch {compared} on, where no result depends on earlier ones"


def _check_cut(recording: Recording, run: Replay, batch: int, missing: Sequence[str]) -> None:
    """A unit whose sources are ahead may deliver before the others have cut; one that needs what is missing may not.

    Raises CommandFailed when it did.
    """
    for unit in run.waiting:
        if recording.committed.get(unit, 0) >= batch:
            named = f"source task {missing[0]}" if missing else "a source task"
            raise CommandFailed(f"batch {batch} was delivered by {unit}, but {named} has no valid cut for it")


# -- what there is ----------------------------------------------------------------------------------------------------


def find(log: Log, topics: ClusterTopics, job: str, generation: str = "") -> Recording:
    """The recording of a job. Raises CommandFailed."""
    name, _, named = job.partition("@")
    admitted = [(plan, ms) for plan, ms in _plans(log, topics) if plan.job == name]
    wanted = generation or named
    chosen = [index for index, (plan, _) in enumerate(admitted) if wanted in ("", plan.generation)]
    if not chosen:
        raise _unknown(log, topics, name, wanted)
    plan, admitted_ms = admitted[chosen[-1]]
    later = admitted[chosen[-1] + 1 :]
    own = topics.job(plan.job, plan.generation)
    _check_own(log, own, ended=bool(later) or _ended(log, topics, plan.generation))
    skipped = _decided(log, topics).skipped(plan.generation)
    base = cuts_base(log, plan, Partition(own.cuts, 0))
    if newest_in(base):
        check_settles(plan, newest_in(base))
    next_ms = later[0][1] if later else None
    return Recording(plan, own, admitted_ms, next_ms, _committed(log, plan, own), skipped, base)


def _plans(log: Log, topics: ClusterTopics) -> Iterator[tuple[Plan, int]]:
    """Every admitted job that is not retired, and when it was admitted, in that order."""
    for one in read_jobs(log, topics).records():
        record = decode_decision(one.record.encode())
        if isinstance(record, Plan):
            yield record, one.time_ms


def _ended(log: Log, topics: ClusterTopics, generation: str) -> bool:
    return _decided(log, topics).ended(generation) is not None


def _decided(log: Log, topics: ClusterTopics) -> Admitted:
    return read_admitted(log, topics)


def _unknown(log: Log, topics: ClusterTopics, job: str, generation: str) -> CommandFailed:
    known = list(dict.fromkeys(f"{plan.job}@{plan.generation}" for plan, _ in _plans(log, topics)))
    named = f"'{job}@{generation}'" if generation else f"'{job}'"
    nearest = suggest(job, list(dict.fromkeys(one.partition("@")[0] for one in known)))
    listed = f"known: {', '.join(known)}" if known else "none was ever admitted"
    return CommandFailed(f"there is no job {named}", f"{nearest}; {listed}" if nearest else listed, USAGE)


def _check_own(log: Log, own: JobTopics, *, ended: bool) -> None:
    """The topics that a replay reads must be there."""
    present = log.topics(own.recorded)
    for topic in sorted(own.recorded):
        if topic not in present:
            why = "the job has ended, and its topics are deleted" if ended else "it was deleted"
            hint = "a job can be replayed as long as it runs, and afterwards if it was submitted with `keep_cuts: true`"
            raise CommandFailed(f"topic {topic} is gone: {why}", hint)


def _committed(log: Log, plan: Plan, own: JobTopics) -> dict[str, int]:
    """By unit that delivers: the position in its last transaction, or its last marker's batch: a marker says that all
    transactions up to its batch are committed, and that those batches had no more rows.
    """
    units = {unit.name: unit.partition for unit in plan.units if unit.delivers}
    found = dict.fromkeys(units, 0)
    newest = newest_cut(log, Partition(own.cuts, 0))
    for message in log.scan(Partition(own.progress, 0)):
        with suppress(msgspec.DecodeError):  # nobody has taken it for progress
            known = decode_progress(message.value() or b"")
            if known.unit in found and known.acked <= newest:
                found[known.unit] = max(found[known.unit], known.acked)
    for name, partition in units.items():
        for message in log.scan(Partition(own.delivered, partition)):
            with suppress(msgspec.DecodeError):  # nor this for a position
                batch = delivered.decode(message.value() or b"").batch
                found[name] = max(found[name], batch if batch <= newest else 0)
    return found


def _version_notes(plan: Plan) -> list[str]:
    here = library_versions()
    return [
        f"the job runs with {name} {version}, this command with {here[name]}: bytes may differ for that alone"
        for name, version in plan.versions.items()
        if name in here and here[name] != version and plan.versions.keys() == here.keys()
    ]


def where_raised(log: Log, recording: Recording) -> WhereRaised:
    """Where users' code raised, as the cut log says. What a unit has committed was decided."""
    if not may_raise(recording.plan):
        return lambda unit, batch: None
    partition = Partition(recording.topics.cuts, 0)
    fold, known = of_plan(recording.plan, recording.base), dict[tuple[str, int], Mapping[str, TaskRaised]]()
    for message in log.scan(partition, recording.base.upto):
        if message.offset() in recording.skipped.get(partition, ()):
            continue
        with suppress(msgspec.DecodeError):
            record = cuts.decode(message.value() or b"")
            if fold.read(message.offset(), record) and isinstance(record, Raised):
                known[record.unit, record.batch] = record.tasks

    def where(unit: str, batch: int) -> Mapping[str, TaskRaised] | None:
        leading = fold.leading(unit)
        if leading is None:
            return None
        decided = batch <= max(leading.batch, recording.committed.get(unit, 0))
        return known.get((unit, batch), {} if decided else None)

    return where


# -- what went in -----------------------------------------------------------------------------------------------------


class _Cuts:
    """The valid cuts, a batch at a time."""

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
        """The cuts of earlier batches and this one: a source task may be behind the others where the log begins."""
        for task in self._log.tasks:
            while self._log.task(task).batch < batch and self._recorded.next(self._partition) is not None:
                self._read(self._recorded.take(self._partition))
        early = sorted((name for name in self._waiting if name[1] <= batch), key=lambda name: name[1])
        yield from (self._waiting.pop(name) for name in early)

    def batch(self, batch: int, tasks: Sequence[str]) -> dict[str, Cut]:
        """The cut of each task for the batch, of those that have come so far."""
        wanted = {task: (task, batch) for task in tasks}
        while any(name not in self._waiting for name in wanted.values()):
            if self._recorded.next(self._partition) is None:
                break
            self._read(self._recorded.take(self._partition))
        return {task: self._waiting.pop(name) for task, name in wanted.items() if name in self._waiting}

    def _read(self, message: Message) -> None:
        """A record that cannot be read is as invalid as one that does not fit."""
        if message.offset() in self._skipped:
            return
        try:
            record = cuts.decode(message.value() or b"")
        except msgspec.DecodeError:
            return
        if self._log.read(message.offset(), record) and isinstance(record, Cut):
            self._waiting[record.task, record.batch] = record


class _Sources:
    """The user's records that the cuts name, each source with a reader of its own: two may share a topic."""

    def __init__(self, log: Log, recording: Recording) -> None:
        self._topics: dict[str, str] = {}
        self._starts: dict[Partition, int] = {}
        self._first: dict[Partition, int] = {}
        self._recorded: dict[str, Recorded] = {}
        known = log.describe({source.topic for source in recording.plan.sources})
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
            for index in range(len(source.owners)):
                self._topics[f"{source.operator}-{index}"] = source.topic
                self._recorded[f"{source.operator}-{index}"] = recorded

    def close(self) -> None:
        for recorded in set(self._recorded.values()):
            recorded.close()

    def take(self, task: str, cut: Cut) -> Taken:
        """Raises CommandFailed for records that are gone."""
        topic, recorded = self._topics[task], self._recorded[task]
        ranges = [(Partition(topic, r.partition), r) for r in cut.ranges]
        if any(min(r.stop, self._starts[p]) - r.start > r.lost for p, r in ranges):
            raise self._gone()
        try:
            found = [(recorded.below(p, r.stop), r) for p, r in ranges]
            return Taken(cut, [NO_RECORDS if r.lost else _records(messages) for messages, r in found])
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


def _records(messages: Sequence[Message]) -> Records:
    values = [message.value() for message in messages]
    keys = {at: messages[at].key() for at, value in enumerate(values) if value is None} if None in values else {}
    return Records(
        [message.offset() for message in messages], values, [message.timestamp()[1] for message in messages], keys
    )


# -- what came out ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Stretch:
    """What is read of one partition of a sink's topic. others: records that are not this job's."""

    partition: Partition
    sink: OperatorPlan
    ours: RowsOf
    others: int = 0


@dataclass(slots=True)
class _Delivered:
    """A query's rows of one batch."""

    committed: list[Row] = field(default_factory=list)
    pending: list[Row] = field(default_factory=list)


class _Found:
    """What sinks and dead letters hold, against what was computed."""

    def __init__(self, log: Log, recording: Recording) -> None:
        self._committed, self._first_batch = recording.committed, 1
        self.notes: list[str] = []
        self.dead = Comparison(DEAD_LETTERS)
        self.queries: dict[str, Comparison] = {}
        self._query_of: dict[str, str] = {}
        self.too_large = 0
        self._letters = Partition(recording.topics.dead_letters, 0)
        self._stretches: list[_Stretch] = []
        sinks = [one for one in recording.plan.operators if one.kind == "sink"]
        present = log.topics({sink.params["topic"] for sink in sinks})
        for sink in sinks:
            query, topic = sink.params["query"], sink.params["topic"]
            if topic not in present:
                raise CommandFailed(f"topic {topic}, to which query {query} writes, is gone")
            self.queries[query] = Comparison(query)
            self._query_of[sink.name] = query
            ours = RowsOf(recording.plan.job, recording.plan.generation, query)
            self._stretches += [_Stretch(Partition(topic, index), sink, ours) for index in range(present[topic])]
            if "compact" in log.config(topic).get("cleanup.policy", ""):
                self.notes.append(f"topic {topic} is compacted: rows that newer ones replaced count as lost")
        self._recorded = Recorded(log, "replay-found", *self._bounds(log, recording))

    def close(self) -> None:
        self._recorded.close()

    def compare(self, batch: int, outcomes: Sequence[Outcome], first_batch: int) -> None:
        """Takes what was computed for a batch, and all that was found up to it. first_batch: that is compared.

        Rows behind the last batch known to be committed may be there or not, but no others may.
        """
        self._first_batch = first_batch
        expected = {query: _Delivered() for query in self.queries}
        letters = _Delivered()
        for outcome in outcomes:
            sure = batch <= self._committed.get(outcome.unit, 0)
            for query, rows in outcome.rows.items():
                (expected[query].committed if sure else expected[query].pending).extend(rows)
            dead = [Row(dead_letters.encode(letter)) for letter in outcome.dead]
            (letters.committed if sure else letters.pending).extend(dead)
        for query, some in expected.items():
            self.queries[query].expect(batch, some.committed, some.pending)
        self.dead.expect(batch, letters.committed, letters.pending)
        self._find(batch)

    def finish(self) -> None:
        """Rows of a batch behind the last one are not compared: they were delivered since."""
        for comparison in (*self.queries.values(), self.dead):
            comparison.finish()
        if self.too_large:
            self.notes.append(f"{self.too_large} rows, too large for their sink's topic, are dead letters and not lost")
        for stretch in self._stretches:
            if stretch.others:
                self.notes.append(f"{stretch.partition}: {stretch.others} records are not of this job, and left out")

    def _find(self, batch: int) -> None:
        """The records of each partition before the first row of a later batch."""
        for stretch in self._stretches:
            comparison = self.queries[stretch.sink.params["query"]]
            while (message := self._recorded.next(stretch.partition)) is not None:
                at = stretch.ours.batch(message.headers())
                if at is not None and at > batch:
                    break
                self._recorded.take(stretch.partition)
                if at is None:
                    stretch.others += 1
                elif at >= self._first_batch:
                    comparison.find(at, _row(message, stretch))
        while (message := self._recorded.next(self._letters)) is not None:
            letter = dead_letters.decode(message.value() or b"")
            if letter.batch > batch:
                break
            self._recorded.take(self._letters)
            if letter.batch >= self._first_batch and not self._excused(letter):
                self.dead.find(letter.batch, Row(message.value() or b""))

    def _excused(self, letter: DeadLetter) -> bool:
        """The dead letter stands for a row that was too large for its sink's topic, which no computation can know."""
        query = self._query_of.get(letter.origin)
        if query is None or not self.queries[query].excuse(letter.batch, lambda row: stands_for(letter, row.value)):
            return False
        self.too_large += 1
        return True

    def _bounds(self, log: Log, recording: Recording) -> tuple[dict[Partition, int], dict[Partition, int]]:
        """The stretch of each partition that belongs to this generation."""
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
