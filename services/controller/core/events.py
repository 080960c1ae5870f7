"""Events for the core: records as they are read, the time, and outcomes of the actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.schemas.assignments import Assignment
from holdfast.schemas.heartbeats import HeartbeatRecord
from holdfast.schemas.plans import Counts, Decision, Plan, Problem, Retirement, Status
from holdfast.schemas.progress import Progress
from holdfast.services.controller.core.actions import Action
from holdfast.services.decisions.standings import Standings


@dataclass(frozen=True, slots=True)
class Submitted:
    """A record of `jobs.submit` as it is; mistakes in it are reported to the user."""

    offset: int
    timestamp_ms: int
    value: bytes


@dataclass(frozen=True, slots=True)
class DecisionRead:
    """A record of `jobs.plans`, valid or not."""

    decision: Decision | Retirement


@dataclass(frozen=True, slots=True)
class AssignmentsBegun:
    """Standings of units and goals at the offset from which `assignments` is read; comes before any other event."""

    standings: Standings


@dataclass(frozen=True, slots=True)
class AssignmentRead:
    """A record of `assignments` at an offset; each change and each goal in it is valid or not."""

    record: Assignment
    offset: int


@dataclass(frozen=True, slots=True)
class BeatRead:
    """A heartbeat or an exit notice."""

    record: HeartbeatRecord


@dataclass(frozen=True, slots=True)
class Published:
    """The last status of each job that was published before the start, by generation."""

    statuses: Mapping[str, Status]


@dataclass(frozen=True, slots=True)
class ProgressRead:
    """Progress of a unit of a draining job."""

    generation: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The controller has read all that the logs held at its start; from now on the core acts."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """The plan of a job that can run."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Refused:
    """The job cannot run, for these reasons."""

    generation: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """Final counts by the units of a job whose transactional ids are fenced."""

    generation: str
    counts: Counts


@dataclass(frozen=True, slots=True)
class Found:
    """Records of the batch of a unit in quarantine, for people."""

    generation: str
    unit: str
    records: str


@dataclass(frozen=True, slots=True)
class Done:
    """The action was carried out; what was appended is acknowledged."""

    action: Action


@dataclass(frozen=True, slots=True)
class Failed:
    """The action was not carried out, or its outcome is unknown: it is repeated later."""

    action: Action
    cause: str


Outcome = Drafted | Refused | Counted | Found | Done | Failed
Event = (
    Submitted
    | DecisionRead
    | AssignmentsBegun
    | AssignmentRead
    | BeatRead
    | Published
    | ProgressRead
    | CaughtUp
    | Ticked
    | Outcome
)
