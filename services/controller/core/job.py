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
    """The last pause or resume that a user asked for; offset in `jobs.submit`.

    start: where sources whose topics were created again continue: earliest or latest.
    """

    kind: str
    offset: int
    start: str = ""


@dataclass(frozen=True, slots=True)
class Switched:
    """The command that has a generation take over which stands by. held: the one that leads was held for it then.

    offset: in `jobs.submit`. begin: what the command says; None: the generation is given up.
    """

    offset: int
    begin: Start | None
    held: bool


@dataclass(slots=True)
class Job:
    """A generation of a job.

    value: its record on `jobs.submit`, None until it is read.
    start: with which savepoint it begins, as that record says.
    units: unit by key, once a plan is valid.
    hosts: the kind of process that takes each.
    proposal: the decision to append.
    asked: the deed under way.
    failed: the deed to ask for again at retry_ms.
    was_up: all units served at some time.
    stood: its last state, and since when; 0: not known.
    formerly_ms: until then a state may be one from before this controller started.
    formerly: the state that was published then, empty if nothing was.
    ran_out: units that have processed their end.
    counts: of its records, once no copy is left.
    records: of the batch of each unit in quarantine, None until it is known.
    successor: label of the job that has taken its place; empty: none.
    switch: the command that says what becomes of it, if it stands by.
    switch_asked: what it says is being done.
    waits_since_ms: it stands by.
    schemes: the last one that a command asked for, by unit, and the offset of the command.
    policies: commands for another checkpoint policy that may not be answered yet, by offset.
    policy_asked: the last one to which an answer was proposed.
    progress: the newest that each unit has published.
    complete_ms: when a global checkpoint was stated last.
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
    # What users asked for.
    cancel_offset: int | None = None
    drain_offset: int | None = None
    successor: str = ""
    switch: Switched | None = None
    switch_asked: bool = False
    waits_since_ms: int = 0
    control: Control | None = None
    schemes: dict[str, tuple[int, str]] = field(default_factory=dict)
    policies: dict[int, Command] = field(default_factory=dict)
    # What is under way.
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
        """Generation whose place it is to take; empty: none."""
        if self.plan is not None:
            return "" if self.plan.seed is None else self.plan.seed.replaces
        return "" if self.start is None else self.start.replaces

    @property
    def stands_by(self) -> bool:
        """Another generation leads until a command has this one take over."""
        return self.plan.stands_by if self.plan is not None else self.start is not None and self.start.waits

    @property
    def given_up(self) -> str:
        """Why it never leads; empty: it does, or may."""
        return "" if self.plan is None or self.plan.seed is None else self.plan.seed.given_up

    @property
    def begins(self) -> int | None:
        """Offset in `jobs.submit` from which on commands concern it; None: it stands by."""
        if self.stands_by:
            return None
        switched = -1 if self.plan is None or self.plan.seed is None else self.plan.seed.switched
        return switched if switched >= 0 else self.offset

    @property
    def savepoint(self) -> str:
        """Topic of the savepoint that it begins or has begun with; empty: none."""
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
        """Nothing is left to do or to say."""
        return self.over and self.asked is None and self.published is not None and self.published.state in SETTLED

    @property
    def may_be_replaced(self) -> bool:
        """True if it runs, and nobody has asked for its end."""
        return not self.over and self.drain_offset is None and self.cancel_offset is None

    def makes_room_for(self, other: Job) -> bool:
        """True if the other one may be admitted: to stand by, or because this one is held for it."""
        start = other.start
        if start is None or start.replaces != self.generation:
            return False
        return self.may_be_replaced if start.waits else self.holds_for(start)

    def holds_for(self, start: Start) -> bool:
        """True if another one may take its place: the pause under which its savepoint was taken is still its last
        control, and nobody else has asked for its end.
        """
        paused = Control("pause", start.paused)
        return start.replaces == self.generation and self.control == paused and self.may_be_replaced

    def make_way(self, other: Job) -> None:
        """Ends for the other one, whose plan is valid."""
        if not self.over:
            self.cancel_offset, self.successor = other.begins, other.label

    def lost(self) -> Problem | None:
        """Why it must not begin though nobody has its name: the job whose place it is to take did not end for it."""
        if not self.replaces:
            return None
        message = f"{self.name}@{self.replaces}, whose place it is to take, has ended: rows might be delivered twice"
        return Problem("name", message, "`holdfast submit --from` begins with a savepoint that you have")

    @property
    def stop_offset(self) -> int:
        """Offset of the command, in `jobs.submit`, that asked for its end; -1: nobody did."""
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
        """Takes the plan that says where it begins, or that it never does."""
        self.plan = plan
        if plan.seed is not None and plan.seed.given_up:
            self.cancel_offset = self.offset + 1  # a goal to stop names what comes behind the job
        if plan.stands_by:
            return
        if plan.seed is not None and plan.seed.rests and self.control is None:  # its cut log begins so
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
