"""Copies of each unit with their flags, goal and checkpoint policy of each job: the records of `assignments`.

Source: PROTOCOL 1 and 8; the flags are MECHANISMS section 4.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

import msgspec

from holdfast.schemas.decoders import Count, Positive, Strict, Whole
from holdfast.schemas.formats import FIRST
from holdfast.schemas.incidents import Incident, IncidentStanding
from holdfast.schemas.outages import Outage, OutageStanding
from holdfast.schemas.retired import Retired


class Flags(msgspec.Struct, frozen=True, omit_defaults=True):
    """Switches of one copy of a unit. `commit` is on at exactly one copy: it cuts, commits, checkpoints and trims.

    checkpoint_target: true if the copy follows the leader's checkpoints, so that the leader keeps the newest marker
        recent.
    """

    state: str = "live"
    receive: bool = True
    process: bool = True
    send: bool = True
    commit: bool = True
    checkpoint_target: bool = False


PRIMARY = Flags()

UnitKey = Annotated[str, msgspec.Meta(pattern="^[^@/]+@[^@/]+/[^@/]+$")]
"""`<job>@<generation>/<unit>`; a record with any other key is malformed."""


class Copy(msgspec.Struct, frozen=True):
    """A copy of a unit on one incarnation of a worker."""

    worker: str
    incarnation: str
    flags: Flags


class Deadly(msgspec.Struct, frozen=True, omit_defaults=True):
    """Reason of a quarantine: processes that held a copy ended one after the other at the same place, or copies met an
    unexpected error there.

    crashes: number of the ends or errors.
    worker: the last of these workers.
    batch: of the unit; 0: other work for the unit.
    what: that other work, such as `loading`.
    error: the last unexpected error, with its traceback; empty: processes ended.
    """

    crashes: Count
    worker: str
    batch: Count = 0
    what: str = ""
    error: str = ""

    def __str__(self) -> str:
        where = f"in batch {self.batch}" if self.batch else f"while {self.what} it"
        if self.error:
            return f"{self.crashes} unexpected errors in a row {where}, the last on {self.worker}: {self.error}"
        return f"{self.crashes} workers in a row ended {where}, the last was {self.worker}"


class Unshown(msgspec.Struct, frozen=True):
    """The copy on this worker runs versions of which it is not known if they give equal bytes."""

    worker: str
    versions: str


class Differing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Versions that give other bytes, and the observation.

    worker: of the copy.
    batch: the first one that differed; 0: the copy stopped.
    cause: why the copy stopped.
    """

    versions: str
    worker: str
    batch: Count = 0
    cause: str = ""

    def __str__(self) -> str:
        return f"{self.worker}, {f'batch {self.batch}' if self.batch else self.cause}: {self.versions}"


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """The copies of one unit from now on; valid iff epoch = the unit's last + 1 and the copies are well formed.

    copies: the primary first, then the secondary; none: the unit is unplaced.
    scheme: the unit's fault-tolerance scheme; the flags may still be on the way there.
    asked: offset in `jobs.submit` of the job or the command that asked for the scheme; -1: none did yet.
    moving: the worker to which the unit is handed over; the copy there gets `commit` once it has caught up.
    moved: offset in `jobs.submit` of the last answered command `move` or `drill`; -1: there was none.
    deadly: the reason of a quarantine, which lasts until the job ends: the unit has no copies and gets none.
    backing: the worker on which a new standby is made; the former one goes once the new one holds the unit's state.
    line: number of rollbacks of the unit, together with others of its job; the highest line of them is the job's.
    back: the global checkpoint with which that line begins; a copy whose checkpoint log is on an earlier line begins
        there.
    rolled: offset of the last answered command `rollback`, as in moved.
    adaptive: true if recovery chooses the scheme, as the job or the command named by `asked` allows.
    shown: versions whose copies have shown equal bytes, those of the first leader first; only such a copy leads.
    unshown: copies that process and lead nothing until they have shown equal bytes.
    differ: versions that gave other bytes.
    accepted: offset in `jobs.submit` of the last command that let versions lead without proof; -1: there was none.
    plan: number of the replication plan that chose the scheme last; valid only unchanged, or as the newest.
    """

    unit: UnitKey
    epoch: Count
    copies: tuple[Copy, ...] = ()
    scheme: str = "none"
    reason: str = ""
    asked: Whole = -1
    moving: str = ""
    moved: Whole = -1
    deadly: Deadly | None = None
    backing: str = ""
    line: Count = 0
    back: Count = 0
    rolled: Whole = -1
    adaptive: bool = False
    shown: tuple[str, ...] = ()
    unshown: tuple[Unshown, ...] = ()
    differ: tuple[Differing, ...] = ()
    accepted: Whole = -1
    plan: Count = 0

    def unshown_of(self, copy: Copy) -> Unshown | None:
        """Returns the versions of a copy that may not lead yet; None if the copy may lead."""
        if not self.unshown:
            return None
        return next((one for one in self.unshown if one.worker == copy.worker and not copy.flags.commit), None)

    @property
    def committer(self) -> Copy | None:
        """The leader of the unit."""
        return next((copy for copy in self.copies if copy.flags.commit), None)

    @property
    def arriving(self) -> Copy | None:
        """The copy to which a unit that moves is handed over; None if the unit does not move."""
        if not self.moving:
            return None
        begun = self.copies and self.copies[0].flags.commit
        others = (copy for copy in self.copies if copy.worker == self.moving and not copy.flags.commit)
        return next(others, None) if begun else None

    @property
    def replacing(self) -> Copy | None:
        """The standby that is to replace the one before it; None if there is none."""
        if not self.backing:
            return None
        begun = len(self.copies) > 2 and self.copies[0].flags.commit
        return next((copy for copy in self.copies[2:] if copy.worker == self.backing), None) if begun else None

    @property
    def switched(self) -> bool:
        """True if another copy leads the unit while the primary is away."""
        return bool(self.copies) and not self.copies[0].flags.commit

    @property
    def well_formed(self) -> bool:
        """True if unplaced, or with one copy per worker, of which exactly one commits and has all other flags on,
        too.
        """
        workers = {copy.worker for copy in self.copies}
        leaders = [copy.flags for copy in self.copies if copy.flags.commit]
        at_work = all(flags.state == "live" and flags.receive and flags.process and flags.send for flags in leaders)
        return len(workers) == len(self.copies) and len(leaders) == bool(self.copies) and at_work


class Standing(msgspec.Struct, frozen=True):
    """The last valid change of a unit, and the offset of its record."""

    offset: Count
    change: Change


RUN: Literal["run"] = "run"
STOP: Literal["stop"] = "stop"
GoalKind = Literal["run", "stop"]

JobName = Annotated[str, msgspec.Meta(pattern=r"\A[^@/\s]+\Z")]
Generation = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,18}-[0-9a-f]{6}\Z")]


class Goal(msgspec.Struct, frozen=True, omit_defaults=True):
    """The controller's goal for one generation of a job: its units run, or none has a copy any more.

    The first goal of a generation counts until the first `stop`, which is final.

    asked: offset in `jobs.submit` of the command that asked for the stop; -1 for a goal that no command asked for.
    """

    job: JobName
    generation: Generation
    kind: GoalKind
    reason: str = ""
    asked: Whole = -1

    @property
    def job_key(self) -> str:
        """`<job>@<generation>`, the first part of the key of each unit."""
        return job_key(self.job, self.generation)

    @property
    def well_formed(self) -> bool:
        """True unless a stop names no command after the job itself in `jobs.submit`."""
        return self.kind == RUN or self.asked > int(self.generation.partition("-")[0])


class GoalStanding(msgspec.Struct, frozen=True):
    """The valid goal of a job, and the offset of its record."""

    offset: Count
    goal: Goal


class CheckpointPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The checkpoint policy of one generation of a job, in force from the moment at which a worker reads the record.

    asked: offset in `jobs.submit` of the job, for the policy of its plan, or of the command that the record answers.
        Valid iff that is above the last valid one's, so each command is answered once.
    refusal: why the command is refused; the record then repeats the policy that was in force.
    since: offset of the command that put the policy in force; at most asked.

    The settings are those of schemas/job_settings.py, CheckpointSettings.
    """

    job: JobName
    generation: Generation
    asked: Count
    policy: str
    interval_ms: Positive
    min_interval_ms: Count
    max_interval_ms: Positive
    every_batches: Positive
    since: Count
    merge_ms: Annotated[float, msgspec.Meta(ge=0)] = 5.0
    refusal: str = ""

    @property
    def job_key(self) -> str:
        """`<job>@<generation>`, the first part of the key of each unit."""
        return job_key(self.job, self.generation)


class GlobalCheckpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A batch for which every unit of one generation of a job has a valid marker, so that all of them can go back to
    it.

    since: offset of the checkpoint policy under which the markers were written.
    line: of the job when the author read the markers.

    Valid iff these two are the job's at the record's place in the log, and the batch is above the last valid one's
    under that policy: a checkpoint that was complete under another policy may be trimmed by now.
    """

    job: JobName
    generation: Generation
    batch: Positive
    since: Count
    line: Count = 0

    @property
    def job_key(self) -> str:
        """`<job>@<generation>`, the first part of the key of each unit."""
        return job_key(self.job, self.generation)


class ReplicationPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Units of one generation of a job that get a replica that processes, within its replication budget.

    number: from 1 on; valid iff it is the last valid one + 1, so that of two plans made at once only one counts.
    units: by name.
    fidelity: the predicted output fidelity with every other unit gone, at the rates of that time.
    before: the fidelity of the previous plan at the same rates.
    """

    job: JobName
    generation: Generation
    number: Positive
    units: tuple[str, ...]
    fidelity: float
    before: float = 0.0

    @property
    def job_key(self) -> str:
        """`<job>@<generation>`, the first part of the key of each unit."""
        return job_key(self.job, self.generation)


class ReplicationStanding(msgspec.Struct, frozen=True):
    """The last valid replication plan of a job, and the offset of its record."""

    offset: Count
    plan: ReplicationPlan


class CheckpointStanding(msgspec.Struct, frozen=True):
    """The newest global checkpoint of a job, and the offset of its record."""

    offset: Count
    checkpoint: GlobalCheckpoint


class PolicyStanding(msgspec.Struct, frozen=True):
    """The last valid checkpoint policy of a job, and the offset of its record."""

    offset: Count
    policy: CheckpointPolicy


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of every unit, goal and policy after all records below `upto`: a fact, so any process may append it.

    Records about generations that are `retired` by then are no part of the state.
    """

    upto: Count
    units: tuple[Standing, ...]
    goals: tuple[GoalStanding, ...] = ()
    retired: Retired = Retired()
    policies: tuple[PolicyStanding, ...] = ()
    checkpoints: tuple[CheckpointStanding, ...] = ()
    format: Count = FIRST
    incidents: tuple[IncidentStanding, ...] = ()
    replications: tuple[ReplicationStanding, ...] = ()
    outages: tuple[OutageStanding, ...] = ()


class Assignment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record of changes that are each valid or not on their own, or of goals, policies, a snapshot, or what is
    retired.

    retired: generations whose end is decided. Their units and goals leave the state, but for a generation of which a
        unit has a copy: that one is kept.
    format: in which processes write from now on, valid iff it is above the last (schemas/formats.py); 0: it says none.

    A reader that knows no snapshots and no goals finds no changes in such a record, and continues.
    """

    author: str
    time_ms: Whole
    changes: tuple[Change, ...]
    snapshot: Snapshot | None = None
    goals: tuple[Goal, ...] = ()
    retired: Retired | None = None
    policies: tuple[CheckpointPolicy, ...] = ()
    checkpoints: tuple[GlobalCheckpoint, ...] = ()
    format: Count = 0
    incidents: tuple[Incident, ...] = ()
    replications: tuple[ReplicationPlan, ...] = ()
    outages: tuple[Outage, ...] = ()


def job_key(job: str, generation: str) -> str:
    return f"{job}@{generation}"


def unit_key(job: str, generation: str, unit: str) -> str:
    return f"{job_key(job, generation)}/{unit}"


@lru_cache(maxsize=4096)
def job_key_of(key: str) -> str:
    """Returns `<job>@<generation>` of a unit's key; recovery calls it several times for each unit in each sweep."""
    return key.partition("/")[0]


def split_job_key(key: str) -> tuple[str, str]:
    """Returns (job, generation). Raises ValueError on any other text."""
    job, generation = key.split("@")
    return job, generation


def generation_of(key: str) -> str:
    """Returns the generation in the key of a unit or of a job."""
    return job_key_of(key).partition("@")[2]


def split_unit_key(key: str) -> tuple[str, str, str]:
    """Returns (job, generation, unit). Raises ValueError on any other text."""
    run, unit = key.split("/")
    job, generation = run.split("@")
    return job, generation, unit


_decoder = Strict(msgspec.json.Decoder(Assignment).decode)


def decode(data: bytes) -> Assignment:
    """Decodes an assignment. Raises msgspec.DecodeError on malformed bytes."""
    return _decoder.decode(data)


def encode(record: Assignment) -> bytes:
    return msgspec.json.encode(record)
