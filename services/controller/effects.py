"""Carries out the core's decisions: on the log, and by planning.

Source: PROTOCOL 1, 3 and 9. `carry_out` blocks, and may run in another thread than the core, one call at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from holdfast.schemas import assignments, cuts, events, formats, plans
from holdfast.schemas.assignments import Assignment, split_job_key
from holdfast.schemas.cuts import Control
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.schemas.rights import SERVICES, Role
from holdfast.schemas.savepoints import Start
from holdfast.schemas.topics import ClusterTopics, JobTopics, Partition, TopicSpec
from holdfast.services.controller.core import actions as do
from holdfast.services.controller.core import events as happened
from holdfast.services.controller.counts import counts_of
from holdfast.services.controller.ends import beginnings, ends_of_sources
from holdfast.services.controller.first_checkpoints import FirstCheckpoints
from holdfast.services.controller.kept import delete_over, until_ms
from holdfast.services.controller.left_over import LeftOver
from holdfast.services.controller.record_writer import RecordWriter
from holdfast.services.decisions.decided import Author
from holdfast.services.kernel.errors import HoldfastError, JobRejected
from holdfast.services.kernel.plans.layout import all_data_topics, commit_logs
from holdfast.services.log.kafka.durability import Durability
from holdfast.services.log.late.cut_ranges import records_of
from holdfast.services.log.protocol import Log

if TYPE_CHECKING:
    from holdfast.services.controller.drafter import Drafter
    from holdfast.services.planning.check import Describe

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

LEAST_KEPT_MS = 3_600_000
"""Least time for which a dead letter is kept while its job runs."""


class JobRights(Protocol):
    """Grants and revokes the rights of roles on the topics of a job. Each method raises Retriable."""

    def begin(self, job: JobTopics) -> None: ...
    def end(self, job: JobTopics, roles: Iterable[Role]) -> None: ...


@dataclass(frozen=True, slots=True)
class Means:
    """Means of a controller beside the log."""

    versions: Mapping[str, str]
    """Versions of the libraries that plans pin."""
    allow: Sequence[str] = ()
    """Modules that Python operators may come from."""
    durability: Durability = field(default_factory=Durability)
    rights: JobRights | None = None
    """Granted when the topics of a job are created; None: the cluster uses no rights."""
    describe: Describe | None = None
    """Output of an operator on its inputs; None: Spark is asked in a process of its own."""


class Effects:
    """Effects of one controller.

    Args:
        name: of the controller.
        time_ms: time of day.
        format: returns the format that every process of the cluster reads.
    """

    def __init__(
        self,
        log: Log,
        cluster: ClusterTopics,
        name: str,
        time_ms: Callable[[], int],
        means: Means,
        format: Callable[[], int],
    ) -> None:
        self._log = log
        self._cluster = cluster
        self._name = name
        self._time_ms = time_ms
        self._format = format
        self._means = means
        self.rights = means.rights
        self._drafter: Drafter | None = None
        self._left_over = LeftOver(cluster)
        self._appending = RecordWriter(log)
        self._planting = FirstCheckpoints(log, Author(f"{name}/savepoint"))

    @property
    def unanswered(self) -> bool:
        """True if appends have no answer yet."""
        return self._appending.unanswered > 0

    def carry_out(self, taken: Sequence[do.Action]) -> list[happened.Outcome]:
        """Carries out the actions; returns outcomes. Blocks. Outcomes of unanswered appends come from a later call."""
        outcomes: list[happened.Outcome] = []
        # Appends, which do not block, go before the actions that block.
        for action in sorted(taken, key=lambda action: isinstance(action, _BLOCKING)):
            try:
                outcomes += self._carry_out(action)
            except HoldfastError as error:
                outcomes.append(happened.Failed(action, str(error)))
        return outcomes + self._appending.outcomes()

    def prepare(self) -> Drafter:
        """Loads the planner: half a second that a controller which follows another one need not wait for."""
        from holdfast.services.controller.drafter import Drafter

        if self._drafter is None:
            self._drafter = Drafter(
                self._log, self._cluster.prefix, self._means.versions, self._means.allow, describe=self._means.describe
            )
        return self._drafter

    def close(self) -> None:
        self._appending.close()

    def _carry_out(self, action: do.Action) -> list[happened.Outcome]:
        match action:
            case do.Draft():
                return [self._draft(action)]
            case do.CreateTopics(plan):
                if self.rights is not None:
                    self.rights.begin(self._names(plan))
                self._log.create(self._means.durability.of(self._specs(plan)))
                if plan.seed is not None:
                    self._planting.base(self._names(plan), plan)
            case do.Switch(plan, begin, asked, id):
                return [self._take_over(plan, begin, asked, id)]
            case do.DeleteTopics(plan):
                self._planting.forget(plan.generation)
                left = self._left_behind(plan)
                self._log.delete(left)
                if self.rights is not None:
                    names = self._names(plan)
                    self.rights.end(names, Role if names.dead_letters in left else SERVICES)
            case do.TrimLogs(upto):
                self._log.trim(upto)
            case do.FenceIds(plan):
                self._fence(plan)
                return [
                    happened.Counted(plan.generation, counts_of(self._log, self._cluster, plan)),
                    happened.Done(action),
                ]
            case do.DeleteKept(ended, retired, named):
                self._log.delete(self._left_over.due(self._log.topics(), named, self._time_ms()))
                gone = lambda generation: generation in ended or retired.has(generation)  # noqa: E731
                deleted = delete_over(self._log, self._cluster, self._time_ms(), gone)
                if self.rights is not None:
                    for owner in {self._cluster.owner(name) or "" for name in deleted}:
                        self.rights.end(self._cluster.job(*split_job_key(owner)), Role)
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
        from holdfast.services.controller.seeded_start import taken_over

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
        | do.AppendAssigned
        | do.AppendRoot
        | do.ForgetStatus
        | do.AppendControl
        | do.PublishStatus
        | do.PublishEvent,
    ) -> None:
        match action:
            case do.AppendDecision(decision):
                self._appending.append(action, Partition(self._cluster.plans, 0), plans.encode(decision))
            case do.AppendAssigned(goals, policies, checkpoints, retired):
                record = Assignment(
                    self._name,
                    self._time_ms(),
                    (),
                    goals=goals,
                    policies=policies,
                    checkpoints=checkpoints,
                    retired=retired,
                )
                self._appending.append(action, Partition(self._cluster.assignments, 0), assignments.encode(record))
            case do.AppendRoot(root):
                self._appending.append(action, Partition(self._cluster.plans, 0), plans.encode(root))
            case do.ForgetStatus(label):
                self._appending.append(action, Partition(self._cluster.status, 0), None, label.encode())
            case do.AppendControl(plan, kind, offset, start):
                where = Partition(self._names(plan).cuts, 0)
                ends = ends_of_sources(self._log, plan, where) if kind == "drain" else {}
                begins = beginnings(self._log, plan, start) if kind == "resume" and start else {}
                self._appending.append(
                    action, where, cuts.encode(Control(kind, offset, ends, begins, level=self._levels(kind)))
                )
            case do.PublishStatus(status):
                key = f"{status.job}@{status.generation}".encode()
                self._appending.append(action, Partition(self._cluster.status, 0), plans.encode(status), key)
            case do.PublishEvent(event):
                self._appending.append(action, Partition(self._cluster.events, 0), events.encode(event))

    def _levels(self, kind: str) -> bool:
        """True for a pause, once every process can let source tasks reach the newest batch."""
        return kind == "pause" and self._writes(formats.LEVEL)

    def _writes(self, format: int) -> bool:
        """True if every process of the cluster reads the additions of this format."""
        return formats.written(self._format()) >= format

    def _names(self, plan: Plan) -> JobTopics:
        return self._cluster.job(plan.job, plan.generation)

    def _left_behind(self, plan: Plan) -> set[str]:
        """Returns the topics that are deleted with a generation: all but kept dead letters, and the topics of a
        replay.
        """
        names = self._names(plan)
        found = {spec.name for spec in (*self._specs(plan), names.replayed)}
        keeps = (plan.settings.keep_dead_letters_s or 0) > 0 and names.dead_letters in self._log.topics()
        if keeps and until_ms(self._log, names) is not None:
            found -= {names.dead_letters, names.replayed.name}
        seed = {plan.seed.topic} if plan.seed is not None else set[str]()
        of_spark = {*commit_logs(plan), *(topic for spark in plan.spark for topic in spark.first_positions)}
        return found - names.recorded - of_spark if plan.settings.keep_cuts else found | seed

    def _specs(self, plan: Plan) -> list[TopicSpec]:
        names, settings = self._names(plan), plan.settings
        if settings.keep_dead_letters_s is None:
            return names.specs(len(plan.units), all_data_topics(plan, names))
        keep_ms = max(int(1000 * settings.keep_dead_letters_s), LEAST_KEPT_MS)
        return names.specs(len(plan.units), all_data_topics(plan, names), keep_ms, settings.keep_dead_letters_bytes)
