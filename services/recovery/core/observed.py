"""Events for the core of a recovery replica: records that its shell has read, and outcomes of proposals."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.schemas.assignments import Assignment, Change, ReplicationPlan
from holdfast.schemas.heartbeats import HeartbeatRecord
from holdfast.schemas.incidents import Incident
from holdfast.schemas.outages import Outage
from holdfast.schemas.plans import Decision, Retirement
from holdfast.services.decisions.standings import Standings
from holdfast.services.recovery.core.replication.answering import Answer


@dataclass(frozen=True, slots=True)
class BeatRead:
    """A record of `heartbeats` by a worker or its parent."""

    record: HeartbeatRecord


@dataclass(frozen=True, slots=True)
class EchoRead:
    """The heartbeat that this replica sent itself came back."""


@dataclass(frozen=True, slots=True)
class PeerRead:
    """Another replica says which formats it reads."""

    name: str
    reads: int


@dataclass(frozen=True, slots=True)
class Replanned:
    """The planner of replicas has answered."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Began:
    """Standings of all units where the replica begins to read `assignments`; before any other event."""

    standings: Standings


@dataclass(frozen=True, slots=True)
class AssignmentRead:
    """A record of `assignments` at an offset."""

    record: Assignment
    offset: int


@dataclass(frozen=True, slots=True)
class DecisionRead:
    """A record of `jobs.plans`."""

    decision: Decision | Retirement


@dataclass(frozen=True, slots=True)
class SchemeAsked:
    """A user wants another scheme, or that recovery chooses one. offset: of the command in `jobs.submit`."""

    unit: str
    scheme: str
    offset: int


@dataclass(frozen=True, slots=True)
class PolicyAsked:
    """A user wants another checkpoint policy for `<job>@<generation>`. offset: of the command in `jobs.submit`."""

    job: str
    offset: int


@dataclass(frozen=True, slots=True)
class MoveAsked:
    """A user wants a unit to run on another worker. offset: of the command in `jobs.submit`."""

    unit: str
    worker: str
    offset: int


@dataclass(frozen=True, slots=True)
class RollbackAsked:
    """A user wants a unit, or all of a job, back at its newest global checkpoint. offset: of the command."""

    job: str
    unit: str
    offset: int


@dataclass(frozen=True, slots=True)
class VersionsAccepted:
    """A user lets the versions lead that the workers of `<job>@<generation>` have now. offset: of the command."""

    job: str
    offset: int


@dataclass(frozen=True, slots=True)
class DrillAsked:
    """A user wants a takeover of a unit of which nothing has failed. offset: of the command in `jobs.submit`."""

    unit: str
    offset: int


@dataclass(frozen=True, slots=True)
class TakeoverJudged:
    """A takeover needed this factor of the estimate: a record of `events`."""

    unit: str
    needed: float


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All that the logs held at the start was read: from now on the replica proposes."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """These proposals were not appended, as far as anybody knows."""

    changes: tuple[Change, ...] = ()
    incidents: tuple[Incident, ...] = ()
    replications: tuple[ReplicationPlan, ...] = ()
    outages: tuple[Outage, ...] = ()


Event = (
    Began | BeatRead | EchoRead | PeerRead | AssignmentRead | DecisionRead | SchemeAsked | PolicyAsked | MoveAsked
    | RollbackAsked | VersionsAccepted | DrillAsked | TakeoverJudged | CaughtUp | Withdrawn | Replanned
)  # fmt: skip
