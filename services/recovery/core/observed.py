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
    """This replica has read back the heartbeat that it sent itself. Heartbeats of others count in the same way."""


@dataclass(frozen=True, slots=True)
class PeerRead:
    """Another replica reports the newest format that it reads."""

    name: str
    reads: int


@dataclass(frozen=True, slots=True)
class Replanned:
    """The planner of replicas has answered."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Began:
    """Standings of all units at the offset from which the replica reads `assignments`; comes before any other event."""

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
    """A user asks for another scheme, or for an adaptive one.

    offset: of the command in `jobs.submit`.
    """

    unit: str
    scheme: str
    offset: int


@dataclass(frozen=True, slots=True)
class PolicyAsked:
    """A user asks for another checkpoint policy of `<job>@<generation>`.

    offset: of the command in `jobs.submit`.
    """

    job: str
    offset: int


@dataclass(frozen=True, slots=True)
class MoveAsked:
    """A user asks for a move of a unit to another worker.

    offset: of the command in `jobs.submit`.
    """

    unit: str
    worker: str
    offset: int


@dataclass(frozen=True, slots=True)
class RollbackAsked:
    """A user asks that a unit, or all units of a job, go back to the newest global checkpoint.

    offset: of the command in `jobs.submit`.
    """

    job: str
    unit: str
    offset: int


@dataclass(frozen=True, slots=True)
class VersionsAccepted:
    """A user lets the versions lead that the workers of `<job>@<generation>` run now.

    offset: of the command in `jobs.submit`.
    """

    job: str
    offset: int


@dataclass(frozen=True, slots=True)
class DrillAsked:
    """A user asks for a takeover of a unit of which nothing has failed.

    offset: of the command in `jobs.submit`.
    """

    unit: str
    offset: int


@dataclass(frozen=True, slots=True)
class TakeoverJudged:
    """A record of `events`: a takeover took this multiple of its estimate."""

    unit: str
    needed: float


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The replica has read all that the logs held at its start; from now on it proposes."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """These proposals were, as far as is known, not appended."""

    changes: tuple[Change, ...] = ()
    incidents: tuple[Incident, ...] = ()
    replications: tuple[ReplicationPlan, ...] = ()
    outages: tuple[Outage, ...] = ()


Event = (
    Began | BeatRead | EchoRead | PeerRead | AssignmentRead | DecisionRead | SchemeAsked | PolicyAsked | MoveAsked
    | RollbackAsked | VersionsAccepted | DrillAsked | TakeoverJudged | CaughtUp | Withdrawn | Replanned
)  # fmt: skip
