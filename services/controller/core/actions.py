"""Actions that the core asks for. Each is harmless when it is done twice, or by two replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.schemas import events
from holdfast.schemas.assignments import CheckpointPolicy, GlobalCheckpoint, Goal
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Decision, Plan, Retirement, Snapshot, Status
from holdfast.schemas.retired import Retired
from holdfast.schemas.savepoints import Start
from holdfast.schemas.topics import Partition


@dataclass(frozen=True, slots=True)
class Draft:
    """Read the job file, describe the topics it names, make a plan; answered by Drafted or Refused."""

    generation: str
    id: Id
    value: bytes


@dataclass(frozen=True, slots=True)
class AppendDecision:
    """Propose on `jobs.plans`."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Create the topics of the plan's generation."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Switch:
    """Bring to the job that stands by what has changed since; answered by Drafted, with where it begins, or Refused.

    asked: offset of the command in `jobs.submit`.
    """

    plan: Plan
    begin: Start
    asked: int
    id: Id


@dataclass(frozen=True, slots=True)
class AppendAssigned:
    """Append to `assignments` what is wanted of a job, or one of the other statements of a controller."""

    goals: tuple[Goal, ...] = ()
    policies: tuple[CheckpointPolicy, ...] = ()
    """Answers to commands that change the checkpoint policy of a job."""
    checkpoints: tuple[GlobalCheckpoint, ...] = ()
    """Global checkpoints that are complete."""
    retired: Retired | None = None
    """Generations that have ended, so that their units are forgotten."""


@dataclass(frozen=True, slots=True)
class AppendRoot:
    """Append to `jobs.plans` what keeps it short."""

    record: Snapshot | Retirement


@dataclass(frozen=True, slots=True)
class TrimLogs:
    """Delete the records of `jobs.plans` and `jobs.submit` below these offsets."""

    upto: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class ForgetStatus:
    """Delete the status of `<job>@<generation>`, which is retired."""

    label: str


@dataclass(frozen=True, slots=True)
class AppendControl:
    """Append pause, resume or drain to the cut log; for drain with the sources' end offsets as they are then, for
    resume, if it says where topics that were created again are read from, with those.
    """

    plan: Plan
    kind: str
    offset: int
    start: str = ""


@dataclass(frozen=True, slots=True)
class FenceIds:
    """Start a transactor under every transactional id of the plan, so that no earlier holder can write.

    Answered by Counted, too: what follows deletes the progress of the job.
    """

    plan: Plan


@dataclass(frozen=True, slots=True)
class FindRecords:
    """Find out which records make up a batch that has ended its workers; answered by Found."""

    plan: Plan
    unit: str
    batch: int


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Delete the topics of the plan's generation."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class DeleteKept:
    """Delete what has outlived its job for long enough, and savepoints that were left.

    ended: generations that are over, beside those retired. named: topics of savepoints that jobs begin with.
    """

    ended: frozenset[str]
    retired: Retired
    named: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PublishStatus:
    """Append to `jobs.status`."""

    status: Status


@dataclass(frozen=True, slots=True)
class PublishEvent:
    """Append to `events`."""

    event: events.Event


Action = (
    Draft | Switch | AppendDecision | CreateTopics | AppendAssigned
    | AppendControl | FenceIds | FindRecords | DeleteTopics | DeleteKept | PublishStatus | PublishEvent | AppendRoot
    | TrimLogs | ForgetStatus
)  # fmt: skip


def generation_of(action: Action) -> str | None:
    """The job that the action is for."""
    match action:
        case Draft():
            return action.generation
        case AppendDecision():
            return action.decision.generation
        case AppendAssigned():
            said: list[Goal | CheckpointPolicy | GlobalCheckpoint] = [*action.goals, *action.policies]
            return next((one.generation for one in [*said, *action.checkpoints]), None)
        case Switch() | CreateTopics() | AppendControl() | FenceIds() | FindRecords() | DeleteTopics():
            return action.plan.generation
        case PublishStatus():
            return action.status.generation
        case PublishEvent() | DeleteKept() | AppendRoot() | TrimLogs() | ForgetStatus():
            return None
