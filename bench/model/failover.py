"""Units on machines with transient loads, failed over by the recovery core of the real services.

Each unit gets a batch a step from a writer that never fails. Its copies run, follow checkpoints and change as their
flags say; the first copy that has done a batch makes it known to the readers. Source: MECHANISMS H1 to H7, Z4 and Z5.
Where a copy of ours differs from the paper's is said in docs/figures/README.md.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from bench.model.machines import Machine
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Flags, Goal, unit_key
from holdfast.schemas.decided import Id
from holdfast.schemas.heartbeats import CopyState, Heartbeat
from holdfast.schemas.plans import Plan, UnitPlan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.observed import AssignmentRead, BeatRead, CaughtUp, DecisionRead
from holdfast.services.recovery.core.recovery import Recovery

STEP_MS, BEAT_MS = 10, 100
NEED = 0.6
"""Share of a machine's CPU that one unit needs to keep up: the paper's 60 %."""
CHECKPOINT_MS = 500.0
FAIL_STOP_S = 30
DEPLOY_MS, RESTORE_MS, RESUME_MS = 350.0, 115.0, 113.0
"""The paper's 464.61 ms for a copy that is deployed, and 112.82 ms for one that is resumed (Z7c)."""
GENERATION, INCARNATION = "1-000000", "1"
_ORDER = ("deploying", "deployed", "synced", "running")
_WANTED = {"virgin": "deployed", "synced": "synced", "live": "running"}
_TAKES_MS = {"deploying": DEPLOY_MS, "deployed": RESTORE_MS, "synced": RESUME_MS}


@dataclass(slots=True)
class Hosted:
    """A copy on a machine.

    done: number of processed batches.
    since_ms: time at which its present state began.
    """

    epoch: int
    flags: Flags
    since_ms: float
    state: str = "deploying"
    done: float = 0.0

    @property
    def at_work(self) -> bool:
        return self.state == "running" and self.flags.process

    def drive(self, now_ms: float, durable: int) -> None:
        """Up by one state when its time has come, down at once. A suspended copy follows the checkpoints."""
        wanted = _WANTED[self.flags.state]
        if _ORDER.index(self.state) > _ORDER.index(wanted):
            self.state = wanted
            self.since_ms = now_ms
        elif self.state != wanted and now_ms - self.since_ms >= _TAKES_MS[self.state]:
            self.state = _ORDER[_ORDER.index(self.state) + 1]
            self.since_ms = now_ms
        if self.state in ("deployed", "deploying"):
            self.done = 0.0
        else:
            self.done = max(self.done, durable)


@dataclass(slots=True)
class Protected:
    """A unit.

    durable: batch of its newest checkpoint.
    known_ms: time at which its readers got each batch.
    """

    name: str
    durable: int = 0
    marked_ms: float = 0.0
    known_ms: list[float] = field(default_factory=list)

    def delays_ms(self) -> list[float]:
        """Milliseconds from the arrival of each delivered batch to its delivery."""
        return [known_ms - (batch + 1) * STEP_MS for batch, known_ms in enumerate(self.known_ms)]


class Failover:
    """Time passes by `run`.

    Args:
        placed: the machine on which each unit begins. scheme: of all of them. grace_ms: fixed; None: it adapts.
        fail_stop_s: until a primary that is silent, or never well, is given up. checkpoint_ms: between two of a unit.
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        placed: Mapping[str, str],
        scheme: str,
        seed: int,
        grace_ms: int | None = None,
        fail_stop_s: int = FAIL_STOP_S,
        checkpoint_ms: float = CHECKPOINT_MS,
    ) -> None:
        self.now_ms = 0
        self.machines = {machine.name: machine for machine in machines}
        self.units = {unit_key("job", GENERATION, name): Protected(name) for name in placed}
        self.copies: dict[tuple[str, str], Hosted] = {}
        self.switches = 0
        self._assigned = Assigned()
        self._log = list[Assignment]()
        self._beats: list[tuple[float, int, Heartbeat]] = []
        self._chance = random.Random(seed)
        self._fail_stop_s = fail_stop_s
        self._checkpoint_ms = checkpoint_ms
        self.core = Recovery(BEAT_MS * 1000, fixed_grace_us=None if grace_ms is None else grace_ms * 1000)
        self._begin(placed, scheme)

    def _begin(self, placed: Mapping[str, str], scheme: str) -> None:
        plan = self._plan(placed, scheme)
        goal = Goal("job", GENERATION, "run")
        changes = tuple(
            Change(unit_key("job", GENERATION, name), 1, (Copy(where, INCARNATION, PRIMARY),), reason="placed")
            for name, where in placed.items()
        )
        self.core.observe(DecisionRead(plan), 0)
        for machine in self.machines.values():
            self.core.observe(BeatRead(self._beat(machine)), 0)
        self._append("controller", changes, (goal,))
        self._append_all(self.core.observe(CaughtUp(), 0))

    def _plan(self, placed: Mapping[str, str], scheme: str) -> Plan:
        units = tuple(UnitPlan(name, 0, (), 0, scheme) for name in placed)
        spec = {"fault_tolerance": {"fail_stop_timeout_s": self._fail_stop_s}}
        return Plan("job", GENERATION, Id("c", 1), spec, (), (), units, (), {}, STEP_MS, {})

    def run(self, seconds: float) -> Self:
        until_ms = self.now_ms + round(seconds * 1000)
        while self.now_ms < until_ms:
            self.now_ms += STEP_MS
            self._recover()
            self._work()
        return self

    # -- recovery -----------------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Sends and delivers heartbeats, and decides the core's proposals at once."""
        for machine in self.machines.values():
            if self.now_ms % BEAT_MS == machine.phase_ms:
                at_ms = machine.arrival_ms(self.now_ms, self._chance)
                self._beats.append((at_ms, len(self._beats), self._beat(machine)))
        due = sorted((beat for beat in self._beats if beat[0] <= self.now_ms), key=lambda beat: beat[:2])
        if due:
            self._beats = [beat for beat in self._beats if beat[0] > self.now_ms]
        for _, _, beat in due:
            self._append_all(self.core.observe(BeatRead(beat), self.now_ms * 1000))
        self._append_all(self.core.tick(self.now_ms * 1000))

    def _beat(self, machine: Machine) -> Heartbeat:
        reports = tuple(
            CopyState(unit, copy.epoch, copy.state, int(copy.done), durable=self.units[unit].durable)
            for (unit, where), copy in self.copies.items()
            if where == machine.name
        )
        decided = len(self._log) - 1
        return Heartbeat(
            machine.name, INCARNATION, 0, zone=machine.zone, slots=machine.slots, decided=decided, copies=reports
        )

    def _append_all(self, changes: Sequence[Change]) -> None:
        if changes:
            self._append("recovery", changes)

    def _append(self, author: str, changes: Sequence[Change], goals: Sequence[Goal] = ()) -> None:
        record = Assignment(author, self.now_ms, tuple(changes), goals=tuple(goals))
        before = {change.unit: self._assigned.of(change.unit) for change in changes}
        for change in self._assigned.read(record):
            was = before[change.unit]
            self.switches += bool(was and was.committer and change.committer and was.committer != change.committer)
            self._place(change)
        self._log.append(record)
        self._append_all(self.core.observe(AssignmentRead(record, len(self._log) - 1), self.now_ms * 1000))

    def _place(self, change: Change) -> None:
        wanted = {copy.worker: copy.flags for copy in change.copies}
        for unit, where in list(self.copies):
            if unit == change.unit and where not in wanted:
                del self.copies[unit, where]
        for where, flags in wanted.items():
            copy = self.copies.setdefault((change.unit, where), Hosted(change.epoch, flags, self.now_ms))
            copy.epoch, copy.flags = change.epoch, flags

    # -- work ---------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        for (unit, _), copy in self.copies.items():
            copy.drive(self.now_ms, self.units[unit].durable)
        for name, machine in self.machines.items():
            self._share(machine, [copy for (_, where), copy in self.copies.items() if where == name and copy.at_work])
        for key, protected in self.units.items():
            self._publish(protected, {where: copy for (of, where), copy in self.copies.items() if of == key})

    def _share(self, machine: Machine, busy: Sequence[Hosted]) -> None:
        """Shares the CPU evenly among the copies; a copy's unused part goes to the others."""
        left, arrived = machine.free(self.now_ms) / NEED, self.now_ms / STEP_MS
        for count, copy in zip(range(len(busy), 0, -1), sorted(busy, key=lambda one: -one.done), strict=True):
            step = min(left / count, arrived - copy.done)
            copy.done += step
            left -= step

    def _publish(self, unit: Protected, copies: Mapping[str, Hosted]) -> None:
        """Readers take what the first copy that sends has done; the leader's progress is checkpointed."""
        sent = max((int(copy.done) for copy in copies.values() if copy.at_work and copy.flags.send), default=0)
        unit.known_ms += [float(self.now_ms)] * (sent - len(unit.known_ms))
        leader = next((copy for copy in copies.values() if copy.at_work and copy.flags.commit), None)
        if leader is not None and self.now_ms - unit.marked_ms >= self._checkpoint_ms:
            unit.durable, unit.marked_ms = max(unit.durable, int(leader.done)), float(self.now_ms)
