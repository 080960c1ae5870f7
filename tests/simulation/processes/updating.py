"""A person who updates the job: the command as people run it, with its waits in simulated time, and what strikes then.

Each update has steps. At the steps that its seed says the command is killed, somebody resumes the job, or one of the
processes and the broker behind it go away. Afterwards the person looks at which generation leads, and resumes the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from holdfast.schemas import commands
from holdfast.schemas.assignments import unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.plans import Plan, Status
from holdfast.schemas.savepoints import Start
from holdfast.schemas.topics import Partition, generation
from holdfast.services.client import hold as holding
from holdfast.services.client import savepoints as saving
from holdfast.services.client import update as updating
from holdfast.services.client.hold import Held, Hold
from holdfast.services.client.replacement import check_begins
from holdfast.services.client.submission import Submitted
from holdfast.services.client.update import undone, update
from holdfast.services.kernel.errors import CommandFailed, HoldfastError, JobRejected
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.planning.carried_state import NOWHERE
from holdfast.services.view.door import Door, Whereabouts
from tests.simulation.kafka.link import CommandLink
from tests.simulation.kafka.names import TOPICS
from tests.simulation.kafka.timeline import Timeline
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.jobs import NAME

STEPS = ("begin", "stand by", "hold", "rest", "switch", "take over")
STRIKES = ("command", "resume", "worker", "controller", "recovery", "broker")
LOOK_MS, PATIENCE_MS = 40, 8_000
PLACES_MS = 3_000
"""After so long the command continues though copies have no place, as that of people does."""
FIRST_MS, PAUSES_MS = 1_000, (300, 1_500)
BACK = 0.15
"""Share of the updates, but for the first, that undo the one before."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault at a step of an update, when the command has waited so often there."""

    step: str
    kind: str
    waits: int
    ms: int


@dataclass(frozen=True, slots=True)
class Change:
    """An update. kind: a row of CHANGES, or `back`."""

    at_ms: int
    kind: str
    strikes: tuple[Strike, ...]


Spec = dict[str, Any]


def _interval(random: Random, spec: Spec) -> dict[str, str]:
    spec["batch_interval_ms"] = random.choice((20, 50, 100))
    return {}


def _rescaled(random: Random, spec: Spec) -> dict[str, str]:
    for operator in spec["operators"].values():
        if "aggregate" in operator:
            operator["parallelism"] = random.choice((1, 2, 3))
    return {}


def _renamed(random: Random, spec: Spec) -> dict[str, str]:
    former = random.choice(sorted(spec["operators"]))
    name = former.removesuffix("-b") if former.endswith("-b") else f"{former}-b"
    spec["operators"] = {name if one == former else one: of for one, of in spec["operators"].items()}
    for reader in (*spec["operators"].values(), *spec["queries"].values()):
        reader["input"] = name if reader["input"] == former else reader["input"]
    units = spec["fault_tolerance"]["units"]
    spec["fault_tolerance"]["units"] = {name if one == former else one: of for one, of in units.items()}
    return {name: former}


CHANGES: Mapping[str, Callable[[Random, Spec], dict[str, str]]] = {
    "interval": _interval,
    "rescaled": _rescaled,
    "renamed": _renamed,
}
"""Each changes a job file, and returns which operators have new names."""


def draw_changes(random: Random, until_ms: int) -> list[Change]:
    found, at_ms = list[Change](), FIRST_MS
    while at_ms < until_ms:
        strikes = tuple(
            Strike(random.choice(STEPS), random.choice(STRIKES), random.randint(0, 3), random.randint(30, 800))
            for _ in range(random.choice((0, 1, 1, 2)))
        )
        back = bool(found) and random.random() < BACK
        found.append(Change(at_ms, "back" if back else random.choice((*CHANGES, "rescaled")), strikes))
        at_ms += random.randint(*PAUSES_MS)
    return found


class Killed(BaseException):
    """The command was killed, or the history is over."""


class Person:
    """begun, done: updates that were asked for, and of which the command has seen the end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._random = cluster, Random(f"{cluster.seed}/person")
        self._ids, self._links = count(), count()
        self.begun = self.done = 0

    def update(self, change: Change) -> None:
        """Returns when the command has ended, and the person has looked after the job."""
        command = _Command(self._cluster, change.strikes, self._link(), Random(f"{self._cluster.seed}/{change.at_ms}"))
        former: Plan | None = None
        try:
            with self._clocked():
                former = command.leading()
                if former is not None:
                    self.begun += 1
                    command.run(former, *self._asked(command.door(), former, change))
                    self.done += 1
        except (Killed, HoldfastError) as error:
            self._cluster.story.tell(f"the update ends: {type(error).__name__} {error}")
            if former is not None and not self._cluster.wrong:
                self._look_after(former)

    def _asked(self, door: Door, former: Plan, change: Change) -> tuple[Spec, Start]:
        """Raises CommandFailed if there is nothing to go back to."""
        if change.kind == "back":
            before, start = undone(door, former, NOWHERE)
            return deepcopy(before.spec), start
        spec = deepcopy(former.spec)
        return spec, Start("", "", renamed=CHANGES[change.kind](self._random, spec))

    def _look_after(self, former: Plan) -> None:
        """The former generation is resumed if it leads still."""
        look = _Command(self._cluster, (), self._link(), self._random)
        with suppress(Killed, HoldfastError):
            look.wait(500)
            if (leads := look.leading()) is not None and leads.generation == former.generation:
                self._cluster.submit({"command": "resume", "job": NAME})
            look.wait(200)

    def _link(self) -> CommandLink:
        name = f"command-{next(self._links)}"
        return CommandLink(name, self._cluster.broker, self._cluster.timeline, Random(f"{self._cluster.seed}/{name}"))

    def _clocked(self) -> Any:
        """The command's clock is the simulated one, and its savepoints have names that a seed gives."""
        clock = _Clock(self._cluster.timeline)
        new_id = lambda: f"{next(self._ids):032x}"  # noqa: E731
        stack = mock.patch.multiple(updating, time=clock, new_id=new_id)
        return _all(stack, mock.patch.object(holding, "time", clock), mock.patch.object(saving, "time", clock))


class _all:
    """Several context managers as one."""

    def __init__(self, *each: Any) -> None:
        self._each = each

    def __enter__(self) -> None:
        for one in self._each:
            one.__enter__()

    def __exit__(self, *why: object) -> None:
        for one in reversed(self._each):
            one.__exit__(*why)


class _Clock:
    """Stands in for `time`."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def time(self) -> float:
        return self._timeline.time_ms / 1000

    def monotonic(self) -> float:
        return self._timeline.now_us / 1_000_000


class _Command:
    """One run of `holdfast update`. Implements Replacement."""

    def __init__(self, cluster: Cluster, strikes: tuple[Strike, ...], link: CommandLink, random: Random) -> None:
        self._cluster, self._link, self._random = cluster, link, random
        self._due = sorted(strikes, key=lambda one: STEPS.index(one.step))
        self._step, self._waits = STEPS[0], 0
        link.passes = self.look

    def run(self, former: Plan, raw: Spec, start: Start) -> None:
        self._cluster.story.tell(f"update of {former.generation}: {start.renamed or ''}")
        update(self.door(), former, raw, start, PATIENCE_MS / 1000, _Held(self, self.door(), former), self)

    def door(self) -> Door:
        return Door(self._link, TOPICS, self._link.topics(), Whereabouts(Path(), "memory", TOPICS.prefix, True))

    def leading(self) -> Plan | None:
        return read_admitted(self._link, TOPICS).named(NAME)

    # -- time ---------------------------------------------------------------------------------------------------------

    def enter(self, step: str) -> None:
        self._step, self._waits = step, 0

    def look(self) -> None:
        self.wait(self._random.randint(1, LOOK_MS))

    def wait(self, ms: int) -> None:
        """Lets time pass. Raises Killed."""
        if self._link.dead or self._cluster.wrong:
            raise Killed("it is over")
        self._strike()
        self._cluster.timeline.run(self._cluster.timeline.now_us + ms * 1000, self._cluster.wrong)
        self._waits += 1
        if self._cluster.wrong:
            raise Killed("something is wrong")

    def _strike(self) -> None:
        here = STEPS.index(self._step)
        while self._due and (STEPS.index(self._due[0].step), self._due[0].waits) <= (here, self._waits):
            strike = self._due.pop(0)
            self._cluster.story.tell(f"STRIKE {strike.kind} at {self._step}")
            self._carry_out(strike)

    def _carry_out(self, strike: Strike) -> None:
        cluster = self._cluster
        match strike.kind:
            case "command":
                self._link.die()
                raise Killed("the command is killed")
            case "resume":
                cluster.submit({"command": "resume", "job": NAME})
            case "broker":
                cluster.set_available(False)
                cluster.timeline.after(strike.ms * 1000, lambda: cluster.set_available(True))
            case kind:
                named = {"worker": "w", "controller": "controller", "recovery": "recovery"}[kind]
                roles = [role for role in cluster.roles if role.startswith(named)]
                cluster.crash(self._random.choice(roles), strike.ms, notice=self._random.random() < 0.7)

    # -- Replacing ----------------------------------------------------------------------------------------------------

    def submit(self, raw: Spec, timeout_s: float) -> Submitted:
        self.enter("switch")
        self.look()
        asked = self._append(raw)
        self.enter("take over")
        self._until(lambda: self._led(asked), "does not begin")
        return self._submitted(asked)

    def stand_by(self, raw: Spec, timeout_s: float, meanwhile: Callable[[], None]) -> str:
        self.enter("stand by")
        asked, since_ms = self._append(raw), self._cluster.timeline.now_ms

        def ready() -> bool:
            if (plan := self._plan(asked)) is None:
                return False
            check_begins(plan)
            meanwhile()
            return self._restored(plan) or self._cluster.timeline.now_ms - since_ms >= PLACES_MS

        self._until(ready, "does not stand by")
        return asked

    def take_over(self, job: str, generation: str, begin: Start, timeout_s: float) -> Submitted:
        self.enter("switch")
        self.look()
        self._append(Command("switch", job, generation=generation, begin=begin))
        self.enter("take over")
        self._until(lambda: self._led(generation), "does not take over")
        return self._submitted(generation)

    def give_up(self, job: str, generation: str) -> None:
        self._append(Command("switch", job, generation=generation))

    def _append(self, record: Spec | Command) -> str:
        """The generation that a job gets by it."""
        appender, offsets, time_ms = self._link.appender("submit"), list[int](), self._cluster.timeline.time_ms
        value = commands.encode(record)
        done = lambda error, offset: offsets.append(offset)  # noqa: E731
        appender.append(Partition(TOPICS.submit, 0), value, timestamp_ms=time_ms, done=done)
        appender.flush(1)
        return generation(offsets[0], time_ms, value)

    def _plan(self, generation: str) -> Plan | None:
        """The plan that was made of a job; None: it is not decided yet. Raises JobRejected."""
        known = read_admitted(self._link, TOPICS)
        if (rejection := known.rejection(generation)) is not None:
            raise JobRejected(rejection.problems)
        return known.plan(generation)

    def _led(self, generation: str) -> bool:
        if (plan := self._plan(generation)) is None:
            return False
        check_begins(plan)
        return not plan.stands_by

    def _restored(self, plan: Plan) -> bool:
        hosts = [one.host for one in self._cluster.workers() if one.alive and one.host is not None]
        here = {copy.unit for host in hosts for copy in host.copies() if copy.batch > 0}
        return here >= {unit_key(plan.job, plan.generation, unit.name) for unit in plan.units}

    def _until(self, reached: Callable[[], bool], otherwise: str) -> None:
        until_ms = self._cluster.timeline.now_ms + PATIENCE_MS
        while not reached():
            if self._cluster.timeline.now_ms >= until_ms:
                raise CommandFailed(f"the next generation {otherwise}")
            self.look()

    def _submitted(self, generation: str) -> Submitted:
        return Submitted(NAME, generation, Status(NAME, generation, "running", 0))


class _Held(Hold):
    """Says which step the command is at."""

    def __init__(self, command: _Command, door: Door, plan: Plan) -> None:
        self._command = command
        super().__init__(door, plan, command.look)

    def hold(self, timeout_s: float) -> Held:
        self._command.enter("hold")
        found = super().hold(timeout_s)
        self._command.enter("rest")
        return found
