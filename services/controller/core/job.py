"""A generation of a job: its records in the logs, the requests of users, and its phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.schemas.assignments import unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Counts, Decision, Plan, Problem, Rejection, Status
from holdfast.schemas.progress import Progress
from holdfast.schemas.savepoints import Start
from holdfast.services.controller.core.actions import Action
from holdfast.services.controller.core.availability import Availability
from holdfast.services.controller.core.life import OVER, UNDECIDED, Life
from holdfast.services.kernel.plans.priorities import delivering, needed

SETTLED = ("ended", "rejected")


@dataclass(frozen=True, slots=True)
class Control:
    """The last pause or resume that a user asked for.

    offset: of the command in `jobs.submit`.
    start: the end from which sources continue whose topics were created again: earliest or latest.
    """

    kind: str
    offset: int
    start: str = ""


@dataclass(frozen=True, slots=True)
class Switched:
    """The command for a generation that stands by: it takes over, or is given up.

    offset: in `jobs.submit`.
    begin: the beginning that the command names; None: the generation is given up.
    held: true if the leading generation was held for it then.
    """

    offset: int
    begin: Start | None
    held: bool


@dataclass(slots=True)
class Job:
    """A generation of a job.

    value: its record on `jobs.submit`; None until it is read.
    start: the savepoint in that record with which the job begins.
    units: name of each unit by key, once a plan is valid.
    hosts: by unit key, the kind of process that takes the unit.
    proposal: the decision to append.
    asked: the deed under way.
    failed: the deed to repeat at retry_ms.
    was_up: true if all units ran at some time.
    stood: its last state, and the time since which it has it; 0: not known.
    formerly_ms: time until which a state may be older than this controller.
    formerly: the state that was published before; empty: none.
    ran_out: units that have processed their end.
    counts: counts of its records, once no copy is left.
    records: by unit in quarantine, the records of the batch; None until they are known.
    successor: label of the job that has taken its place; empty: none.
    switch: the command for a generation that stands by.
    switch_asked: true while that command is carried out.
    waits_since_ms: time since which it stands by.
    schemes: by unit, the offset of the last command for a scheme, and the scheme.
    policies: by offset, commands for another checkpoint policy that may be unanswered.
    policy_asked: offset of the last command to which an answer was proposed.
    progress: the newest progress of each unit.
    complete_ms: time at which the last global checkpoint was stated.
    availability: of its queries.
    """

    generation: str
    name: str
    value: bytes | None = None
    start: Start | None = None
    life: Life = field(default_factory=lambda: Life(""))
    plan: Plan | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    proposal: Decision | None = None
    # Requests of users.
    cancel_offset: int | None = None
    drain_offset: int | None = None
    successor: str = ""
    switch: Switched | None = None
    switch_asked: bool = False
    waits_since_ms: int = 0
    control: Control | None = None
    schemes: dict[str, tuple[int, str]] = field(default_factory=dict)
    policies: dict[int, Command] = field(default_factory=dict)
    # Work under way.
    policy_asked: int = -1
    progress: dict[str, Progress] = field(default_factory=dict)
    complete_ms: int = 0
    control_asked: int = -1
    control_done: int = -1
    drained_ms: int = 0
    asked: Action | None = None
    failed: Action | None = None
    retry_ms: int | None = None
    trouble: str = ""
    ran_out: set[str] = field(default_factory=set)
    counts: Counts = field(default_factory=Counts)
    records: dict[str, str | None] = field(default_factory=dict)
    was_up: bool = False
    stood: tuple[str, int] = ("", 0)
    formerly_ms: int = 0
    formerly: Status | None = None
    published: Status | None = None
    published_ms: int = 0
    availability: Availability = field(default_factory=lambda: Availability({}, {}))

    @property
    def offset(self) -> int:
        """Offset of its record on `jobs.submit`."""
        return int(self.generation.split("-")[0])

    @property
    def label(self) -> str:
        return f"{self.name}@{self.generation}"

    @property
    def replaces(self) -> str:
        """Generation whose place this one is to take; empty: none."""
        if self.plan is not None:
            return "" if self.plan.seed is None else self.plan.seed.replaces
        return "" if self.start is None else self.start.replaces

    @property
    def stands_by(self) -> bool:
        """True if another generation leads until a command lets this one take over."""
        return self.plan.stands_by if self.plan is not None else self.start is not None and self.start.waits

    @property
    def given_up(self) -> str:
        """Reason for which the generation never leads; empty if it leads or may."""
        return "" if self.plan is None or self.plan.seed is None else self.plan.seed.given_up

    @property
    def begins(self) -> int | None:
        """Offset in `jobs.submit` from which commands concern the job; None while it stands by."""
        if self.stands_by:
            return None
        switched = -1 if self.plan is None or self.plan.seed is None else self.plan.seed.switched
        return switched if switched >= 0 else self.offset

    @property
    def savepoint(self) -> str:
        """Topic of the savepoint with which the job begins or has begun; empty: none."""
        if self.plan is not None:
            return "" if self.plan.seed is None else self.plan.seed.topic
        return "" if self.start is None else self.start.topic

    @property
    def undecided(self) -> bool:
        return self.life.phase in UNDECIDED

    @property
    def over(self) -> bool:
        return self.life.phase in OVER

    @property
    def settled(self) -> bool:
        """True if nothing is left to do or to publish."""
        return self.over and self.asked is None and self.published is not None and self.published.state in SETTLED

    @property
    def may_be_replaced(self) -> bool:
        """True if the job runs and no command asks for its end."""
        return not self.over and self.drain_offset is None and self.cancel_offset is None

    def makes_room_for(self, other: Job) -> bool:
        """True if the other job may be admitted: it is to stand by, or this job is held for it."""
        start = other.start
        if start is None or start.replaces != self.generation:
            return False
        return self.may_be_replaced if start.waits else self.holds_for(start)

    def holds_for(self, start: Start) -> bool:
        """True if another job may take this one's place.

        The pause under which its savepoint was taken must still be its last control, and no other command asks for its
        end.
        """
        paused = Control("pause", start.paused)
        return start.replaces == self.generation and self.control == paused and self.may_be_replaced

    def make_way(self, other: Job) -> None:
        """Ends for the other job, whose plan is valid."""
        if not self.over:
            self.cancel_offset = other.begins
            self.successor = other.label

    def lost(self) -> Problem | None:
        """Returns why the job must not begin although its name is free: the job that it replaces did not end for it."""
        if not self.replaces:
            return None
        message = f"{self.name}@{self.replaces}, whose place it is to take, has ended: rows might be delivered twice"
        return Problem("name", message, "`holdfast submit --from` begins with a savepoint that you have")

    @property
    def stop_offset(self) -> int:
        """Offset in `jobs.submit` of the command that asked for the job's end; -1 if there was none."""
        asked = self.cancel_offset if self.cancel_offset is not None else self.drain_offset
        return -1 if asked is None else asked

    @property
    def all_ran_out(self) -> bool:
        return bool(self.units) and self.ran_out >= set(self.units.values())

    def admit(self, plan: Plan) -> None:
        self.plan = plan
        self.units = {unit_key(plan.job, plan.generation, unit.name): unit.name for unit in plan.units}
        self.availability = Availability(needed(plan), delivering(plan))
        self.hosts = {unit_key(plan.job, plan.generation, unit.name): unit.host for unit in plan.units}
        self.begin(plan)

    def begin(self, plan: Plan) -> None:
        """Takes the plan that states the beginning of the job, or that it never leads."""
        self.plan = plan
        if plan.seed is not None and plan.seed.given_up:
            self.cancel_offset = self.offset + 1  # a goal to stop names an offset after the job's own
        if plan.stands_by:
            return
        if (
            plan.seed is not None and plan.seed.rests and self.control is None
        ):  # the seed begins the cut log with a pause
            at = self.offset if self.begins is None else self.begins
            self.control = Control("pause", at)
            self.control_asked = self.control_done = at

    def refuse(self, problems: tuple[Problem, ...], in_use: Job | None, id: Id) -> None:
        every = problems if in_use is None else (_name_in_use(self, in_use), *problems)
        self.proposal = Rejection(self.name, self.generation, id, every)


def _name_in_use(job: Job, other: Job) -> Problem:
    name = job.name
    if job.replaces == other.generation:
        message = f"{other.label} is not held any more at the batch of the savepoint: somebody has resumed or ended it"
        return Problem("name", message, f"`holdfast update {name}` begins again")
    message = f"job '{name}' is {other.life.phase.value} already, as {other.label}"
    return Problem("name", message, f"`holdfast cancel {name}` first, or use another name")
