"""Start of a replay: a generation of a job in the log, and the places at which its code raised.

A record of a former version names query and batch, but neither job nor generation. The records from the time of a
generation's plan to the time of the job's next plan count as its records: an earlier generation is fenced before it
ends, and a later one is admitted only then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from holdfast.schemas import delivered
from holdfast.schemas.answers import Answer
from holdfast.schemas.cuts import Answered, CutsSnapshot, Gap, Raised, TaskRaised
from holdfast.schemas.plans import Plan
from holdfast.schemas.progress import decode as decode_progress
from holdfast.schemas.topics import ClusterTopics, JobTopics, Partition
from holdfast.services.audit.recomputation import WhereRaised
from holdfast.services.audit.settled_state import check_settles
from holdfast.services.decisions.admitted import Skipped
from holdfast.services.decisions.admitted import decode as decode_decision
from holdfast.services.decisions.answers import Answers, asking, asking_units
from holdfast.services.decisions.cut_snapshots import newest_in
from holdfast.services.decisions.cuts import of_plan
from holdfast.services.decisions.gaps import skipping_units
from holdfast.services.decisions.raises import may_raise
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.log.late.cut_logs import cuts_base, scan_cuts
from holdfast.services.log.late.jobs import read_admitted, read_jobs
from holdfast.services.log.protocol import Log
from holdfast.services.worker.sinks.position import newest_cut


@dataclass(frozen=True, slots=True)
class Recording:
    """A generation in the log.

    next_ms: time at which the next generation of that job was admitted.
    committed: by unit, the last batch whose rows are known to be committed.
    skipped: records that a person has decided to skip.
    base: the state with which the cut log begins.
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
        """The batch before the first one with all of its cuts in the log."""
        return newest_in(self.base)

    @property
    def whole(self) -> bool:
        """True if the log has all cuts of the generation."""
        return self.first == self.plan.first_batch

    @property
    def batches(self) -> int:
        return max(self.committed.values(), default=0)


def find(log: Log, topics: ClusterTopics, job: str, generation: str = "") -> Recording:
    """The recording of a job. Raises CommandFailed."""
    name, _, named = job.partition("@")
    plans = list(_plans(log, topics))
    admitted = [(plan, ms) for plan, ms in plans if plan.job == name]
    wanted = generation or named
    chosen = [index for index, (plan, _) in enumerate(admitted) if wanted in ("", plan.generation)]
    if not chosen:
        raise _unknown([plan for plan, _ in plans], name, wanted)
    plan, admitted_ms = admitted[chosen[-1]]
    later = admitted[chosen[-1] + 1 :]
    own = topics.job(plan.job, plan.generation)
    decided = read_admitted(log, topics)
    _check_own(log, own, ended=bool(later) or decided.ended(plan.generation) is not None)
    skipped = decided.skipped(plan.generation)
    base = cuts_base(log, plan, Partition(own.cuts, 0))
    if newest_in(base) > plan.first_batch:
        check_settles(plan, newest_in(base))
    next_ms = later[0][1] if later else None
    return Recording(plan, own, admitted_ms, next_ms, committed=_committed(log, plan, own), skipped=skipped, base=base)


def _plans(log: Log, topics: ClusterTopics) -> Iterator[tuple[Plan, int]]:
    """Every admitted plan that is not retired and leads, and the time of its admission or takeover, in that order."""
    for one in read_jobs(log, topics).records():
        record = decode_decision(one.record.encode())
        if isinstance(record, Plan) and not record.stands_by:
            yield record, one.time_ms


def _unknown(plans: Sequence[Plan], job: str, generation: str) -> CommandFailed:
    known = list(dict.fromkeys(f"{plan.job}@{plan.generation}" for plan in plans))
    named = f"'{job}@{generation}'" if generation else f"'{job}'"
    nearest = suggest(job, list(dict.fromkeys(one.partition("@")[0] for one in known)))
    listed = f"known: {', '.join(known)}" if known else "none was ever admitted"
    return CommandFailed(f"there is no job {named}", f"{nearest}; {listed}" if nearest else listed, USAGE)


def _check_own(log: Log, own: JobTopics, *, ended: bool) -> None:
    """Raises CommandFailed unless all topics that a replay reads exist."""
    present = log.topics(own.recorded)
    for topic in sorted(own.recorded):
        if topic not in present:
            why = "the job has ended, and its topics are deleted" if ended else "it was deleted"
            hint = "a job can be replayed as long as it runs, and afterwards if it was submitted with `keep_cuts: true`"
            raise CommandFailed(f"topic {topic} is gone: {why}", hint)


def _committed(log: Log, plan: Plan, own: JobTopics) -> dict[str, int]:
    """The last batch known to be committed, by unit that delivers.

    The batch is the position in the unit's last transaction, or its last marker's batch: a marker implies that all
    transactions up to its batch are committed, and that those batches had no more rows.
    """
    units = {unit.name: unit.partition for unit in plan.units if unit.delivers}
    found = dict.fromkeys(units, 0)
    newest = newest_cut(log, Partition(own.cuts, 0), plan.first_batch)
    for message in log.scan(Partition(own.progress, 0)):
        with suppress(msgspec.DecodeError):  # the services skip such a record, too
            known = decode_progress(message.value() or b"")
            if known.unit in found and known.durable <= newest:
                found[known.unit] = max(found[known.unit], known.durable)
    for name, partition in units.items():
        for message in log.scan(Partition(own.delivered, partition)):
            with suppress(msgspec.DecodeError):  # the services skip such a position, too
                batch = delivered.decode(message.value() or b"").batch
                found[name] = max(found[name], batch if batch <= newest else 0)
    return found


@dataclass(frozen=True, slots=True)
class Decisions:
    """Records of the cut log, besides cuts, that a replay repeats."""

    raised: WhereRaised
    """Places at which users' code raised. A unit has committed only decided places."""
    answers: Callable[[str, int], Mapping[str, Answer]]
    """Answers that users' code awaited, by unit and batch."""
    gaps: dict[str, list[Gap]]
    """Gaps of units, in order: precision `gap`."""


def decisions(log: Log, recording: Recording) -> Decisions:
    """The decisions of a recording, by one scan of the cut log; empty where the job can have none."""
    plan, partition = recording.plan, Partition(recording.topics.cuts, 0)
    named, asks, raises, skips = asking(plan), asking_units(plan), may_raise(plan), skipping_units(plan)
    operators = (one for one in plan.operators if one.name in named)
    answers = Answers({task_name(one.name, index) for one in operators for index in range(one.parallelism)})
    fold, raised = of_plan(plan, recording.base), dict[tuple[str, int], Mapping[str, TaskRaised]]()
    gaps: dict[str, dict[int, Gap]] = {unit: {} for unit in skips}
    skipped = recording.skipped.get(partition, ())
    for offset, record in scan_cuts(log, partition, recording.base.upto) if asks or raises or skips else ():
        if offset in skipped:
            continue
        if isinstance(record, Gap) and record.unit in gaps and record.after < record.upto:
            gaps[record.unit][record.after] = record
        elif isinstance(record, Answered) and asks:
            answers.read(record)
        if raises and fold.read(offset, record) and isinstance(record, Raised):
            raised[record.unit, record.batch] = record.tasks

    def where(unit: str, batch: int) -> Mapping[str, TaskRaised] | None:
        leading = fold.leading(unit)
        if leading is None:
            return None
        decided = batch <= max(leading.batch, recording.committed.get(unit, 0))
        return raised.get((unit, batch), {} if decided else None)

    return Decisions(
        where,
        lambda unit, batch: answers.of(batch) if unit in asks else {},
        {unit: [known[after] for after in sorted(known)] for unit, known in gaps.items() if known},
    )
