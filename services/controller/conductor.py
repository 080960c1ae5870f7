"""Carries out the core's actions on a Log and reports to it what became of them.

Source: PROTOCOL 1, 3 and 9. `feed` and `tick` are for the thread that owns the core; `carry_out` blocks, and may run in
another thread, one at a time. `run` does all of it at once: for memory, where nothing blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.schemas import assignments, cuts, events, formats, heartbeats, plans, progress
from holdfast.schemas.assignments import Assignment, split_job_key
from holdfast.schemas.cuts import Control
from holdfast.schemas.decided import Id
from holdfast.schemas.events import Event
from holdfast.schemas.plans import Plan, Skip, Snapshot
from holdfast.schemas.rights import SERVICES, Role
from holdfast.schemas.savepoints import Start
from holdfast.schemas.topics import ClusterTopics, JobTopics, Partition, TopicSpec
from holdfast.services.controller.appending import Appending
from holdfast.services.controller.core import actions as do
from holdfast.services.controller.core import events as happened
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.counts import counts_of, published
from holdfast.services.controller.ends import beginnings, ends_of_sources
from holdfast.services.controller.kept import delete_over, until_ms
from holdfast.services.controller.left_over import LeftOver
from holdfast.services.controller.planting import Planting
from holdfast.services.controller.rooting import Rooting
from holdfast.services.decisions.admitted import decode as decode_decision
from holdfast.services.decisions.decided import Author
from holdfast.services.decisions.jobs import EVERY, Jobs
from holdfast.services.decisions.refusals import Refusals
from holdfast.services.decisions.standings import Standings
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.errors import HoldfastError, JobRejected, OtherFormat, Retriable
from holdfast.services.kernel.plans.layout import commit_logs, data_topics
from holdfast.services.log.kafka.durability import Durability
from holdfast.services.log.late.cut_ranges import records_of
from holdfast.services.log.late.jobs import feed_kept
from holdfast.services.log.protocol import Log

if TYPE_CHECKING:
    from holdfast.services.controller.drafting import Drafter
    from holdfast.services.planning.checking import Describe

_log = get_logger()

_BLOCKING = (
    do.Draft,
    do.Switch,
    do.CreateTopics,
    do.DeleteTopics,
    do.TrimLogs,
    do.FenceIds,
    do.FindRecords,
    do.DeleteKept,
)

ROOT_MS = 500
"""Between two looks whether a snapshot is due, or a trim."""
KEPT_LOOK_MS = 5 * 60_000
"""Time between two looks for dead letters that need be kept no longer."""
LEAST_KEPT_MS = 3_600_000
"""While its job runs a dead letter can be seen for so long."""


class Kind(Enum):
    """The topics that the controller reads."""

    SUBMIT = "jobs.submit"
    PLANS = "jobs.plans"
    ASSIGNMENTS = "assignments"
    HEARTBEATS = "heartbeats"


class JobRights(Protocol):
    """Gives and takes what roles may do with the topics of a job. Each raises Retriable."""

    def begin(self, job: JobTopics) -> None: ...
    def end(self, job: JobTopics, roles: Iterable[Role]) -> None: ...


class Conductor:
    """A replica of the controller on one log.

    Args:
        time_ms: time of day.
        versions: of the libraries that plans pin.
        allow: modules that Python operators may come from.
        snapshot_every: records of `jobs.plans` and `jobs.submit` between two snapshots.
        safe_s: age of a snapshot that both are trimmed to; None: they never are.
        kept: jobs that are over and still listed.
        rights: given with the topics of a job; None: nobody needs any.
        describe: what an operator makes of its inputs; None: Spark is asked in a process of its own.
    """

    def __init__(
        self,
        log: Log,
        cluster: ClusterTopics,
        core: Controller,
        time_ms: Callable[[], int],
        *,
        versions: Mapping[str, str],
        allow: Sequence[str] = (),
        durability: Durability | None = None,
        snapshot_every: int = EVERY,
        safe_s: float | None = None,
        kept: int | None = None,
        rights: JobRights | None = None,
        describe: Describe | None = None,
    ) -> None:
        self.core, self.cluster = core, cluster
        self._log, self._time_ms, self._durability = log, time_ms, durability or Durability()
        self._versions, self._allow, self._rights, self._describe = versions, allow, rights, describe
        self._drafter: Drafter | None = None
        self._left_over = LeftOver(cluster)
        self._appending = Appending(log)
        self._pending: list[do.Action] = []
        self._looked_ms = time_ms()
        self.rooting = Rooting(core.name, cluster, snapshot_every, safe_s, kept=kept)
        self._rooted_ms, self._planting = 0, Planting(log, Author(f"{core.name}/savepoint"))
        self.refusals = Refusals(self._publish_event, lambda: float(time_ms()), time_ms)

    def topics(self) -> dict[Partition, Kind]:
        """Partitions to be fed."""
        names = {
            self.cluster.submit: Kind.SUBMIT,
            self.cluster.plans: Kind.PLANS,
            self.cluster.assignments: Kind.ASSIGNMENTS,
            self.cluster.heartbeats: Kind.HEARTBEATS,
        }
        return {Partition(name, 0): kind for name, kind in names.items()}

    def progress_topics(self) -> dict[Partition, str]:
        """The progress topics that the core wants to be fed from, with their generation."""
        return {Partition(self._names(plan).progress, 0): plan.generation for plan in self.core.watched}

    # -- what comes in ------------------------------------------------------------------------------------------------

    def begin(self, standings: Standings, jobs: Jobs) -> None:
        """Takes the standings of units and goals, and the records of jobs that count; all that is fed comes behind
        this.
        """
        self._handle(happened.AssignmentsBegun(standings), self._time_ms())
        self.rooting.begin(jobs)
        kinds = self.topics()
        feed_kept(self.cluster, jobs, lambda partition, *record: self._take(kinds[partition], *record))

    def feed(self, kind: Kind, offset: int, timestamp_ms: int, value: bytes | None) -> None:
        """A record of a cluster topic; a malformed one is counted, reported once, and skipped. Raises OtherFormat."""
        now_us = self._time_ms() * 1000
        try:
            if kind is Kind.PLANS and self.rooting.planned(offset, timestamp_ms, value or b"", now_us) is None:
                return
            self._take(kind, offset, timestamp_ms, value or b"")
        except msgspec.DecodeError as error:
            self._refuse(Partition(self._topic(kind), 0), offset, error)
        if why := formats.too_old(self.core.goals.standings.assigned.format):
            raise OtherFormat(why)
        if kind is Kind.SUBMIT:
            self.rooting.submitted(offset, timestamp_ms, value or b"", now_us)
        self._publish_differing()

    def _take(self, kind: Kind, offset: int, timestamp_ms: int, value: bytes) -> None:
        event = _event(kind, offset, timestamp_ms, value)
        if event is None:
            return
        now_ms = self._time_ms()
        self._handle(event, now_ms if self.core.acting else min(now_ms, timestamp_ms))

    def feed_progress(self, generation: str, offset: int, value: bytes | None) -> None:
        try:
            event = happened.ProgressRead(generation, progress.decode(value or b""))
        except msgspec.DecodeError as error:
            plan = self.core.jobs[generation].plan if generation in self.core.jobs else None
            if plan is not None:
                self._refuse(Partition(self._names(plan).progress, 0), offset, error)
            return
        self._handle(event, self._time_ms())

    def caught_up(self) -> None:
        """All that the topics held at the start has been fed."""
        running = [job.label for job in self.core.jobs.values() if not job.over]
        with suppress(Retriable):  # then states count, and latencies are compared, from now on
            self._handle(happened.Published(published(self._log, self.cluster, running)), self._time_ms())
        self._handle(happened.CaughtUp(), self._time_ms())

    def tick(self, now_ms: int) -> None:
        self._handle(happened.Ticked(), now_ms)
        if self.core.acting and now_ms - self._looked_ms >= KEPT_LOOK_MS:
            self._looked_ms = now_ms
            over = frozenset(job.generation for job in self.core.jobs.values() if job.over)
            retired = self.core.goals.standings.assigned.retired.joined(self.rooting.jobs.admitted.retired)
            named = frozenset(topic for job in self.core.jobs.values() if (topic := job.savepoint))
            self._pending.append(do.DeleteKept(over, retired, named))
        if self.core.acting and now_ms - self._rooted_ms >= ROOT_MS:
            self._rooted_ms = now_ms
            if (record := self.rooting.due(now_ms)) is not None:
                self._pending.append(do.AppendRoot(record))
            if (upto := self.rooting.trims.due(now_ms * 1000)) is not None:
                self._pending.append(do.TrimLogs(upto))

    def _publish_differing(self) -> None:
        """A snapshot that differs is a bug, or a stranger's doing."""
        for offset in self.rooting.differs:
            detail = f"the snapshot at {offset} of {self.cluster.plans} is not what the records below it say"
            self._publish_event(Event(self._time_ms(), "snapshot-differs", detail=detail))
        self.rooting.differs.clear()

    def settle(self, outcomes: Iterable[happened.Outcome]) -> None:
        """Takes the outcomes of the actions that `carry_out` was given."""
        for outcome in outcomes:
            if isinstance(outcome, happened.Failed):
                self._withdraw(outcome.action)
                action = outcome.action
                generation = do.generation_of(action)
                job = self.core.jobs[generation].name if generation in self.core.jobs else None
                _log.warning(
                    "action failed", action=type(action).__name__, job=job, generation=generation, cause=outcome.cause
                )
            self._handle(outcome, self._time_ms())

    def _handle(self, event: happened.Event, now_ms: int) -> None:
        self._pending += self.core.handle(event, now_ms)

    def _withdraw(self, action: do.Action) -> None:
        match action:
            case do.AppendRoot(record):
                self.rooting.withdraw(record)
            case do.TrimLogs():
                self.rooting.trims.withdraw()

    def _refuse(self, partition: Partition, offset: int, error: Exception) -> None:
        _log.debug("record refused", at=f"{partition} {offset}", error=str(error))
        self.refusals.refuse(partition, offset, error)

    def _topic(self, kind: Kind) -> str:
        return next(partition.topic for partition, found in self.topics().items() if found is kind)

    def _publish_event(self, event: Event) -> None:
        """Publishes an event. Events of records met in the log before the start were published by another replica, or
        by this one
        in its last life.
        """
        if self.core.acting:
            _log.warning(event.kind, detail=event.detail)
            self._pending.append(do.PublishEvent(event))

    # -- what goes out ------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """True if `carry_out` has anything to do."""
        return bool(self._pending) or self._appending.unanswered > 0

    def take(self) -> list[do.Action]:
        """The actions to be carried out, in order."""
        taken, self._pending = self._pending, []
        return taken

    def run(self) -> None:
        """Carries out what is pending and what follows from it."""
        if self._appending.unanswered:
            self.settle(self.carry_out(()))
        while self._pending:
            self.settle(self.carry_out(self.take()))

    def carry_out(self, taken: Sequence[do.Action]) -> list[happened.Outcome]:
        """Blocks. Outcomes of appends that are not answered come from a later call."""
        outcomes: list[happened.Outcome] = []
        # What is only handed over does not wait for what blocks.
        for action in sorted(taken, key=lambda action: isinstance(action, _BLOCKING)):
            try:
                outcomes += self._carry_out(action)
            except HoldfastError as error:
                outcomes.append(happened.Failed(action, str(error)))
        return outcomes + self._appending.outcomes()

    def prepare(self) -> Drafter:
        """Loads the planner: half a second for which a controller that follows another one does not wait."""
        from holdfast.services.controller.drafting import Drafter

        if self._drafter is None:
            self._drafter = Drafter(
                self._log, self.cluster.prefix, self._versions, self._allow, describe=self._describe
            )
        return self._drafter

    def close(self) -> None:
        self._appending.close()

    def _carry_out(self, action: do.Action) -> list[happened.Outcome]:
        match action:
            case do.Draft():
                return [self._draft(action)]
            case do.CreateTopics(plan):
                if self._rights is not None:
                    self._rights.begin(self._names(plan))
                self._log.create(self._durability.of(self._specs(plan)))
                if plan.seed is not None:
                    self._planting.base(self._names(plan), plan)
            case do.Switch(plan, begin, asked, id):
                return [self._take_over(plan, begin, asked, id)]
            case do.DeleteTopics(plan):
                self._planting.forget(plan.generation)
                left = self._left_behind(plan)
                self._log.delete(left)
                if self._rights is not None:
                    names = self._names(plan)
                    self._rights.end(names, Role if names.dead_letters in left else SERVICES)
            case do.TrimLogs(upto):
                self._log.trim(upto)
            case do.FenceIds(plan):
                self._fence(plan)
                return [
                    happened.Counted(plan.generation, counts_of(self._log, self.cluster, plan)),
                    happened.Done(action),
                ]
            case do.DeleteKept(ended, retired, named):
                self._log.delete(self._left_over.due(self._log.topics(), named, self._time_ms()))
                gone = lambda generation: generation in ended or retired.has(generation)  # noqa: E731
                deleted = delete_over(self._log, self.cluster, self._time_ms(), gone)
                if self._rights is not None:
                    for owner in {self.cluster.owner(name) or "" for name in deleted}:
                        self._rights.end(self.cluster.job(*split_job_key(owner)), Role)
                return []
            case do.FindRecords(plan, unit, batch):
                where = Partition(self._names(plan).cuts, 0)
                records = records_of(self._log, plan, where, batch) if batch else ""
                return [happened.Found(plan.generation, unit, records), happened.Done(action)]
            case _:
                self._append(action)
                return []
        return [happened.Done(action)]

    def _draft(self, action: do.Draft) -> happened.Outcome:
        try:
            drafter, current = self.prepare(), self._writes(formats.CARRIED)
            return happened.Drafted(drafter.draft(action.value, action.generation, action.id, current=current))
        except JobRejected as rejected:
            return happened.Refused(action.generation, rejected.problems)

    def _take_over(self, plan: Plan, begin: Start, asked: int, id: Id) -> happened.Outcome:
        from holdfast.services.controller.beginning import taken_over

        try:
            found = taken_over(self._log, plan, begin, asked, id)
        except JobRejected as rejected:
            return happened.Refused(plan.generation, rejected.problems)
        self._planting.rest(self._names(plan), found, begin.behind)
        return happened.Drafted(found)

    def _fence(self, plan: Plan) -> None:
        for unit in plan.units:
            if unit.delivers:
                transactor = self._log.transactor(self._names(plan).transactional_id(unit.name))
                transactor.start()
                transactor.close()

    def _append(
        self,
        action: do.AppendDecision
        | do.AppendGoal
        | do.AppendPolicy
        | do.AppendCheckpoint
        | do.AppendRetired
        | do.AppendRoot
        | do.ForgetStatus
        | do.AppendControl
        | do.PublishStatus
        | do.PublishEvent,
    ) -> None:
        match action:
            case do.AppendDecision(decision):
                self._appending.append(action, Partition(self.cluster.plans, 0), plans.encode(decision))
            case do.AppendGoal(goal):
                record = assignments.encode(Assignment(self.core.name, self._time_ms(), (), goals=(goal,)))
                self._appending.append(action, Partition(self.cluster.assignments, 0), record)
            case do.AppendPolicy(policy):
                record = assignments.encode(Assignment(self.core.name, self._time_ms(), (), policies=(policy,)))
                self._appending.append(action, Partition(self.cluster.assignments, 0), record)
            case do.AppendCheckpoint(one):
                record = assignments.encode(Assignment(self.core.name, self._time_ms(), (), checkpoints=(one,)))
                self._appending.append(action, Partition(self.cluster.assignments, 0), record)
            case do.AppendRetired(retired):
                record = assignments.encode(Assignment(self.core.name, self._time_ms(), (), retired=retired))
                self._appending.append(action, Partition(self.cluster.assignments, 0), record)
            case do.AppendRoot(root):
                self._appending.append(action, Partition(self.cluster.plans, 0), plans.encode(root))
            case do.ForgetStatus(label):
                self._appending.append(action, Partition(self.cluster.status, 0), None, label.encode())
            case do.AppendControl(plan, kind, offset, start):
                where = Partition(self._names(plan).cuts, 0)
                ends = ends_of_sources(self._log, plan, where) if kind == "drain" else {}
                begins = beginnings(self._log, plan, start) if kind == "resume" and start else {}
                self._appending.append(
                    action, where, cuts.encode(Control(kind, offset, ends, begins, level=self._levels(kind)))
                )
            case do.PublishStatus(status):
                key = f"{status.job}@{status.generation}".encode()
                self._appending.append(action, Partition(self.cluster.status, 0), plans.encode(status), key)
            case do.PublishEvent(event):
                self._appending.append(action, Partition(self.cluster.events, 0), events.encode(event))

    def _levels(self, kind: str) -> bool:
        """True for a pause, once every process knows that it lets source tasks reach the newest batch."""
        return kind == "pause" and self._writes(formats.LEVEL)

    def _writes(self, format: int) -> bool:
        """True if every process of the cluster reads what this format brought."""
        return formats.written(self.core.goals.standings.assigned.format) >= format

    def _names(self, plan: Plan) -> JobTopics:
        return self.cluster.job(plan.job, plan.generation)

    def _left_behind(self, plan: Plan) -> set[str]:
        """The topics that go with a generation: all but its dead letters; `keep_cuts` keeps what a replay reads."""
        names = self._names(plan)
        found = {spec.name for spec in (*self._specs(plan), names.replayed)}
        keeps = plan.spec.get("keep_dead_letters_s", 0) > 0 and names.dead_letters in self._log.topics()
        if keeps and until_ms(self._log, names) is not None:
            found -= {names.dead_letters, names.replayed.name}
        seed = {plan.seed.topic} if plan.seed is not None else set[str]()
        of_spark = {*commit_logs(plan), *(topic for spark in plan.spark for topic in spark.first_positions)}
        return found - names.recorded - of_spark if plan.spec.get("keep_cuts") else found | seed

    def _specs(self, plan: Plan) -> list[TopicSpec]:
        names, spec = self._names(plan), plan.spec
        if "keep_dead_letters_s" not in spec:
            return names.specs(len(plan.units), data_topics(plan))
        keep_ms = max(int(1000 * spec["keep_dead_letters_s"]), LEAST_KEPT_MS)
        return names.specs(len(plan.units), data_topics(plan), keep_ms, spec["keep_dead_letters_bytes"])


def _event(kind: Kind, offset: int, timestamp_ms: int, value: bytes) -> happened.Event | None:
    """None for what does not concern a controller.

    Raises msgspec.DecodeError on a malformed record; what users write is never that, but answered.
    """
    match kind:
        case Kind.SUBMIT:
            return happened.Submitted(offset, timestamp_ms, value)
        case Kind.PLANS:
            decision = decode_decision(value)
            return None if isinstance(decision, Skip | Snapshot) else happened.DecisionRead(decision)
        case Kind.ASSIGNMENTS:
            return happened.AssignmentRead(assignments.decode(value), offset)
        case Kind.HEARTBEATS:
            record = heartbeats.decode(value)
            return None if isinstance(record, heartbeats.Echo) else happened.BeatRead(record)
