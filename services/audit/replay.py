"""A job computed again from the log, and compared with the rows in its sinks.

Source: PROTOCOL 14.2, JOBS `holdfast replay`. A replay only reads, and needs only a `Log`: it checks a run on Kafka and
    one in memory alike. Of a job it needs the plan, the whole cut log and the user's records that were cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from holdfast.schemas.cuts import Gap
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import ClusterTopics, JobTopics
from holdfast.services.audit.begun import Begun, begun, stored
from holdfast.services.audit.comparison import Counts, Difference
from holdfast.services.audit.delivered import Found
from holdfast.services.audit.recomputation import Outcome, Replay
from holdfast.services.audit.recording import Recording, decisions, find
from holdfast.services.audit.settled_state import SettledState
from holdfast.services.audit.sources import Taken
from holdfast.services.audit.taken_in import Cuts, Sources
from holdfast.services.kernel.errors import CommandFailed, Divergence
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.versions import versions
from holdfast.services.log.protocol import Log


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a replay.

    batches: number of batches computed; every row up to there that is known to be committed was compared.
    differences: the first differences of each stream.
    notes: remarks for a reader of the counts.
    late_dropped: records dropped as late in these batches, by stream (services/view/losses.py).
    records_lost: records deleted before they were read, by source; the results are computed without them.
    miscounted: gaps (precision `gap`) whose number of records differs from the number skipped.
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
    miscounted: list[str] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        return self.rows.exact and self.dead_letters.exact and not self.miscounted


def _from_its_beginning(plan: Plan, topics: JobTopics, begin: Mapping[str, Begun] | None) -> Replay:
    return Replay(plan, topics, first=plan.first_batch, begun=begin)


def replay(
    log: Log,
    topics: ClusterTopics,
    job: str,
    *,
    generation: str = "",
    first_batch: int = 1,
    progress: Callable[[int, int], None] = lambda batch, batches: None,
    run_by: Callable[[Plan, JobTopics, Mapping[str, Begun] | None], Replay] = _from_its_beginning,
) -> Report:
    """Computes a job again, up to the last batch that it has delivered, and compares.

    Args:
        job: its name, or name@generation.
        generation: default: the newest that was admitted.
        first_batch: the first batch that is compared; earlier batches are computed as well.
        progress: called with the batch done and the last one.
        run_by: makes the computation of the job from its first batch, given the initial state; a test may pass a
            finished one.

    Raises:
        CommandFailed: there is no such job, or the log no longer holds its input.
        CodeUnavailable: a Python operator cannot be loaded here.
        OtherRecords: the user's topic holds other records than those that were cut.
    """
    recording = find(log, topics, job, generation)
    notes, first = _version_notes(recording.plan), recording.first
    seeded = recording.plan.seed is not None and recording.whole
    begin = begun(recording.plan, stored(log, recording.plan)) if seeded else None
    if recording.whole:
        run = run_by(recording.plan, recording.topics, begin)
    else:
        run = Replay(recording.plan, recording.topics, first=first)
    settling = SettledState(recording.plan, recording.base)
    said = decisions(log, recording)
    run.raised, run.answers = said.raised, said.answers
    run.skip(said.gaps)
    compared = 0
    late, lost = Counter[str](), Counter[str]()
    with (
        closing(Sources(log, recording)) as sources,
        closing(Cuts(log, recording)) as decided,
        closing(Found(log, recording)) as found,
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
            settled = recording.whole or settling.settled(taken.values())
            if settled and batch >= first_batch:
                compared = compared or batch
                found.compare(batch, outcomes, compared)
            progress(batch, recording.batches)
        found.finish()
    if not recording.whole:
        notes.append(_from_there_on(first, compared))
    return Report(
        job=recording.plan.job,
        generation=recording.plan.generation,
        batches=recording.batches,
        rows=sum((one.counts for one in found.queries.values()), Counts()),
        dead_letters=found.dead.counts,
        differences=[d for one in (*found.queries.values(), found.dead) for d in one.differences],
        notes=notes + found.notes + [_gap_note(gap) for gap in run.skipped],
        late_dropped=dict(+late),
        records_lost=dict(+lost),
        miscounted=run.miscounted,
    )


def _processed(run: Replay, taken: Mapping[str, Taken]) -> list[Outcome]:
    try:
        return run.process(taken)
    except Divergence as error:
        raise CommandFailed(str(error), "replay with the code and the libraries that the job had") from None


def _gap_note(gap: Gap) -> str:
    batches = f"batches {gap.after + 1} to {gap.upto}"
    return (
        f"{gap.unit} skipped {plural(gap.records, 'record')}, in {batches} (precision gap): computed without them, too"
    )


def _from_there_on(first: int, compared: int) -> str:
    kept = f"the cut log is kept for replay_horizon_s and begins behind batch {first}"
    if not compared:
        return f"{kept}: nothing could be compared, since no result is made of later batches alone yet"
    return f"{kept}: compared from batch {compared} on, where no result depends on earlier ones"


def _check_cut(recording: Recording, run: Replay, batch: int, missing: Sequence[str]) -> None:
    """Raises CommandFailed if a unit delivered a batch for which a cut that it needs is missing.

    A unit whose sources are ahead may deliver before the others have cut.
    """
    for unit in run.waiting:
        if recording.committed.get(unit, 0) >= batch:
            named = f"source task {missing[0]}" if missing else "a source task"
            raise CommandFailed(f"batch {batch} was delivered by {unit}, but {named} has no valid cut for it")


def _version_notes(plan: Plan) -> list[str]:
    here = versions()
    return [
        f"the job was admitted with {name} {version}, this command has {here[name]}: bytes may differ for that alone"
        for name, version in plan.versions.items()
        if name in here and here[name] != version
    ]
