"""Actions that the core asks for; each action is harmless if it is done twice or by two replicas."""

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
    """Plant the changes since the savepoint for the job that stands by; answered by Drafted, with its beginning, or
    Refused.

    asked: offset of the command in `jobs.submit`.
    """

    plan: Plan
    begin: Start
    asked: int
    id: Id


@dataclass(frozen=True, slots=True)
class AppendAssigned:
    """Append to `assignments` the goal of a job, or another statement of a controller."""

    goals: tuple[Goal, ...] = ()
    policies: tuple[CheckpointPolicy, ...] = ()
    """Answers to commands that change the checkpoint policy of a job."""
    checkpoints: tuple[GlobalCheckpoint, ...] = ()
    """Global checkpoints that are complete."""
    retired: Retired | None = None
    """Generations that have ended, so that their units are forgotten."""


@dataclass(frozen=True, slots=True)
class AppendRoot:
    """Append to `jobs.plans` a snapshot or a retirement, which keep the topic short."""

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
    """Append pause, resume or drain to the cut log.

    A drain carries the present end offsets of the sources. A resume carries the offsets of topics that were created
    again, if it names a start for them.
    """

    plan: Plan
    kind: str
    offset: int
    start: str = ""


@dataclass(frozen=True, slots=True)
class FenceIds:
    """Start a transactor under every transactional id of the plan, so that no earlier holder can write.

    Answered by Counted, too: the next action deletes the progress of the job.
    """

    plan: Plan


@dataclass(frozen=True, slots=True)
class FindRecords:
    """Find the source records of a batch that has ended its workers; answered by Found."""

    plan: Plan
    unit: str
    batch: int


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Delete the topics of the plan's generation."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class DeleteKept:
    """Delete the dead letters that have outlived their job for long enough, and unused savepoints.

    ended: generations that are over, besides the retired ones.
    retired: generations that are retired.
    named: topics of savepoints that jobs begin with.
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
    """Returns the generation of the action's job; None if the action is for no single job."""
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
