"""A tiny cluster on a manual clock: workers that drive copies and report states, and replicas of the recovery core.

Everything is a function of the calls made on it: no threads, no real time. Invariants are checked after every record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from holdfast.schemas.assignments import (
    PRIMARY,
    Assignment,
    Change,
    Copy,
    Flags,
    Goal,
    GoalKind,
    ReplicationPlan,
    job_key,
    job_key_of,
    unit_key,
)
from holdfast.schemas.costs import Costs
from holdfast.schemas.decided import Id
from holdfast.schemas.heartbeats import FAULTED, CopyState, Exit, Heartbeat, HeartbeatRecord, Turn
from holdfast.schemas.incidents import Incident
from holdfast.schemas.outages import Outage
from holdfast.schemas.plans import OperatorPlan, Plan, UnitPlan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.protection.reassigning import HALF
from holdfast.services.recovery.core.observed import (
    AssignmentRead,
    BeatRead,
    CaughtUp,
    DecisionRead,
    DrillAsked,
    EchoRead,
    Event,
    MoveAsked,
    Replanned,
    RollbackAsked,
    SchemeAsked,
    VersionsAccepted,
)
from holdfast.services.recovery.core.placement.reassignment import Reassignment
from holdfast.services.recovery.core.proposing import room
from holdfast.services.recovery.core.recovery import Recovery
from holdfast.services.recovery.core.replication.answering import answer
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from holdfast.services.recovery.core.unit.table import switching

STEP_US, BEAT_US, ECHO_US = 10_000, 100_000, 20_000
DEPLOY_US, RESTORE_US, CHECKPOINT_US = 200_000, 100_000, 500_000
COSTS_US = 1_000_000
CATCH_UP = 20
"""Batches that a copy which is behind processes in a step; a leader at the end of a live stream does one."""

OLD, NEW, OTHER = "1", "2", "3"
"""Versions: those of the plan, later ones that give equal bytes, and those that do not."""
SHOWS = 16
"""Batches in a report of what a copy did."""

G = "3-abcdef"
UNIT = unit_key("job", G, "u-0")
Asking = SchemeAsked | MoveAsked | RollbackAsked | DrillAsked | VersionsAccepted


def plan(
    schemes: dict[str, str],
    fail_stop_s: float = 3.0,
    host: str = "",
    priorities: Mapping[str, int] | None = None,
    **tolerance: object,
) -> Plan:
    """A job with these units, submitted at offset 3. priorities: of queries whose only unit is the one of that name.

    Incidents need more workers than most tests have, so that units are seen alone.
    """
    given = priorities or {}
    units = tuple(
        UnitPlan(name, 0, (f"sink-{name}",) if name in given else (), 0, scheme, host=host)
        for name, scheme in schemes.items()
    )
    sinks = tuple(
        OperatorPlan(f"sink-{name}", "sink", 1, (), {"query": name, "topic": name, "partitions": 1}, {})
        for name in given
    )
    spec = {
        "fault_tolerance": {
            "fail_stop_timeout_s": fail_stop_s,
            "correlated_failure": {"workers": 9},
            "hybrid": {"calm_ms": 200},
            **tolerance,
        },
        "queries": {name: {"priority": priority} for name, priority in given.items()},
    }
    return Plan("job", G, Id("c", 1), spec, sinks, (), units, (), {}, 10, {"polars": OLD})


@dataclass
class Hosted:
    """A copy on a worker. since_us: when its present state was reached."""

    epoch: int
    flags: Flags
    state: str = "deploying"
    batch: int = 0
    since_us: int = 0
    error: str = ""
    """The unexpected error that stopped it, until it is placed once more."""


@dataclass
class Shared:
    """What the logs hold of one unit: the newest batch cut, the newest valid marker, when it was written.

    ended: that marker is the last one; every copy that reads it has ended.
    """

    batch: int = 0
    durable: int = 0
    marked_us: int = 0
    ended: bool = False


@dataclass
class Worker:
    name: str
    zone: str = ""
    slots: int = 8
    standbys: int = -1
    incarnation: str = "1"
    alive: bool = True
    stalled: bool = False
    hears: bool = True
    """False: it is cut off from the broker, but continues."""
    slow: bool = False
    """It answers, but its copies get nothing done."""
    loads: bool = True
    """False: what it is given from now on never has its operators loaded."""
    hosts: str = ""
    leaving: bool = False
    """It was asked to stop, and says so."""
    turn: Turn | None = None
    """Of its loop, which takes long."""
    version: str = OLD
    phase_us: int = 0
    read: int = 0
    assigned: Assigned = field(default_factory=Assigned)
    copies: dict[str, Hosted] = field(default_factory=dict)

    def step(self, world: World) -> None:
        if not self.alive or self.stalled:
            return
        if self.hears:
            while self.read < len(world.log):
                self._read(world.log[self.read], world.now_us)
                self.read += 1
        for unit, copy in self.copies.items():
            self._drive(copy, world.shared[unit], world.now_us)
        if self.hears and world.now_us % BEAT_US == self.phase_us:
            world.publish(self.beat(world))

    def beat(self, world: World) -> Heartbeat:
        reports = tuple(
            CopyState(
                unit, copy.epoch, copy.state, copy.batch, error=copy.error, durable=world.shared[unit].durable,
                shows=self.shows(unit),
            )
            for unit, copy in sorted(self.copies.items())
        )  # fmt: skip
        return Heartbeat(
            self.name, self.incarnation, 0, zone=self.zone, slots=self.slots, decided=self.read - 1, copies=reports,
            hosts=self.hosts, leaving=self.leaving, turn=self.turn, costs=self._costs(world),
            standbys=self.standbys, versions={"polars": self.version},
        )  # fmt: skip

    def shows(self, unit: str) -> tuple[tuple[int, int], ...]:
        """What it did of the newest batches, if anybody wants to know."""
        copy, change = self.copies[unit], self.assigned.of(unit)
        if change is None or not change.unshown or copy.state != "running":
            return ()
        odd = int(self.version == OTHER)
        return tuple((batch, 2 * batch + odd) for batch in range(max(1, copy.batch - SHOWS), copy.batch + 1))

    def _costs(self, world: World) -> tuple[Costs, ...]:
        """The leader knows what would be repeated; a standby spends a millisecond of each second on its image.

        Once a second of world time, where tests say what is measured.
        """
        if world.measured is not None:
            return self._measured(world)
        said = {unit: copy.flags.commit for unit, copy in self.copies.items() if unit in world.expected_ms}
        return tuple(
            Costs(unit, leads=True, recovery_ms=world.expected_ms[unit])
            if leads
            else Costs(unit, apply_ms=world.now_us / 1_000_000)
            for unit, leads in said.items()
        )

    def _measured(self, world: World) -> tuple[Costs, ...]:
        if world.measured is None or world.now_us % COSTS_US >= BEAT_US:
            return ()
        return tuple(
            world.measured(unit, world.now_us, copy.flags.commit)
            for unit, copy in sorted(self.copies.items())
            if copy.state == "running" or not copy.flags.commit
        )

    def _read(self, record: Assignment, now_us: int) -> None:
        for change in self.assigned.read(record):
            mine = [c for c in change.copies if (c.worker, c.incarnation) == (self.name, self.incarnation)]
            if not mine:
                self.copies.pop(change.unit, None)
            elif change.unit in self.copies and not self.copies[change.unit].error:
                copy = self.copies[change.unit]
                copy.epoch, copy.flags = change.epoch, mine[0].flags
            else:
                self.copies[change.unit] = Hosted(change.epoch, mine[0].flags, since_us=now_us)

    def _drive(self, copy: Hosted, shared: Shared, now_us: int) -> None:
        """Up by one state when its time has come, down at once; then the work of one step. An ended copy stays so."""
        if shared.ended and copy.state in ("synced", "running"):
            copy.state = "ended"
        if copy.state in ("ended", FAULTED) or (copy.state == "deploying" and not self.loads):
            return
        waited_us = now_us - copy.since_us
        wanted = {"virgin": "deployed", "synced": "synced", "live": "running"}[copy.flags.state]
        order = ["deploying", "deployed", "synced", "running"]
        if order.index(copy.state) > order.index(wanted):
            copy.state, copy.since_us = wanted, now_us
        elif (
            copy.state != wanted
            and waited_us >= {"deploying": DEPLOY_US, "deployed": RESTORE_US, "synced": 0}[copy.state]
        ):
            copy.state, copy.since_us = order[order.index(copy.state) + 1], now_us
        if copy.state == "synced" and not self.slow:
            copy.batch = max(copy.batch, shared.durable)
        elif copy.state == "deployed":
            copy.batch = 0
        elif copy.state == "running" and not self.slow:
            self._process(copy, shared, now_us)

    @staticmethod
    def _process(copy: Hosted, shared: Shared, now_us: int) -> None:
        copy.batch = max(copy.batch, shared.durable)
        copy.batch = min(copy.batch + CATCH_UP, shared.batch + 1 if copy.flags.commit else shared.batch)
        shared.batch = max(shared.batch, copy.batch)
        if copy.flags.commit and now_us - shared.marked_us >= CHECKPOINT_US:
            shared.durable, shared.marked_us = copy.batch, now_us


@dataclass
class Replica:
    name: str
    core: Recovery
    read: int = 0
    beats_read: int = 0
    alive: bool = True
    late_us: int = 0
    deaf: frozenset[str] = frozenset()
    """Workers whose heartbeats it loses."""


class World:
    """Time goes by `run`; what the recovery proposes is appended, read back by all, and checked.

    calm_us: as the core has it; None: nothing moves for balance. share: of Reassignment. expected_ms: the expected
    recovery time of units whose copies report their costs.
    """

    def __init__(
        self,
        *workers: Worker,
        made: Plan | None = None,
        replicas: int = 1,
        calm_us: int | None = None,
        share: float | None = HALF,
    ) -> None:
        self.share, self.expected_ms = share, dict[str, float]()
        self.now_us, self.calm_us = 0, calm_us
        self.plan = made or plan({"u-0": "hybrid"})
        self.units = [unit_key("job", G, unit.name) for unit in self.plan.units]
        self.workers = {worker.name: worker for worker in workers}
        for number, worker in enumerate(workers):
            worker.phase_us = number * 30_000 % BEAT_US
        self.log: list[Assignment] = []
        self.beats: list[HeartbeatRecord] = []
        self.asked: list[Asking] = []
        self.shared = {unit: Shared() for unit in self.units}
        self.broker_up = True
        self.measured: Callable[[str, int, bool], Costs] | None = None
        """What a copy of a unit reports at a time, given whether it leads; None: copies measure nothing."""
        self.versions = {(worker.name, worker.incarnation): worker.version for worker in workers}
        self.checked = Assigned()
        self.history: list[Change] = []
        self.watchers: list[Callable[[Change | None, Change], None]] = []
        self.replicas: list[Replica] = []
        for _ in range(replicas):
            self.add_replica()

    # -- what tests do ------------------------------------------------------------------------------------------------

    def start(self, **where: str) -> World:
        """Places each unit by hand, one copy, scheme none; on the first worker or the one named. No goal is stated."""
        self.run(0.3)
        first = next(iter(self.workers.values()))
        places = {
            unit: self.workers[where.get(unit.rpartition("/")[2].replace("-", "_"), first.name)] for unit in self.units
        }
        changes = [Change(u, 1, (Copy(w.name, w.incarnation, PRIMARY),), reason="placed") for u, w in places.items()]
        self.append("controller", changes)
        return self

    def settle(self, within_s: float = 15.0) -> World:
        """Runs until every unit is protected."""
        deadline_us = self.now_us + round(within_s * 1_000_000)
        self.run(0.5)
        while self.unprotected():
            assert self.now_us < deadline_us, "\n".join(["not protected again:", *self.unprotected(), *self.story])
            self.run(0.1)
        return self

    def rest(self, within_s: float = 15.0) -> World:
        """Runs until nothing is under way or asked for: a unit that moves, or is about to, may be protected as well."""
        deadline_us = self.now_us + round(within_s * 1_000_000)
        while not all(replica.core.known.at_rest() for replica in self.replicas if replica.alive):
            assert self.now_us < deadline_us, "\n".join(["never at rest:", *self.story])
            self.run(0.1)
        return self

    def run(self, seconds: float) -> World:
        until_us = self.now_us + round(seconds * 1_000_000)
        while self.now_us < until_us:
            self.now_us += STEP_US
            self._step()
        return self

    def until(self, wanted: Stance, within_s: float = 10.0, unit: str = UNIT) -> World:
        deadline_us = self.now_us + round(within_s * 1_000_000)
        while stance(self.checked.of(unit)) is not wanted:
            assert self.now_us < deadline_us, "\n".join([f"never {wanted.value}:", *self.story])
            self.run(STEP_US / 1_000_000)
        return self

    def kill(self, name: str, notice: bool = True) -> None:
        worker = self.workers[name]
        if worker.alive and notice:
            self.publish(Exit(name, worker.incarnation, 0))
        worker.alive = False

    def upgrade(self, name: str, version: str = NEW) -> None:
        """It ends, and starts again with other versions."""
        self.kill(name)
        self.restart(name)
        self.workers[name].version = version
        self.versions[name, self.workers[name].incarnation] = version

    def restart(self, name: str) -> None:
        worker = self.workers[name]
        worker.alive, worker.stalled, worker.leaving, worker.turn = True, False, False, None
        worker.incarnation = str(int(worker.incarnation) + 1)
        worker.copies, worker.read, worker.assigned = {}, 0, Assigned()
        self.versions[name, worker.incarnation] = worker.version

    def end(self, unit: str = UNIT) -> World:
        """It has run out, and its copies say so."""
        self.shared[unit].ended = True
        return self.run(0.2)

    def stall(self, name: str, stalled: bool = True) -> None:
        self.workers[name].stalled = stalled

    def heal(self) -> World:
        """Faults end: every worker runs and answers."""
        for worker in self.workers.values():
            worker.stalled = worker.slow = False
            worker.hears = worker.loads = True
            if worker.version == OTHER:
                self.upgrade(worker.name, OLD)
            if not worker.alive or worker.leaving:
                self.kill(worker.name)
                self.restart(worker.name)
        self.broker_up = True
        for replica in self.replicas:
            replica.deaf, replica.late_us = frozenset(), 0
        return self

    def ask(self, scheme: str, unit: str = UNIT) -> None:
        self._ask(SchemeAsked(unit, scheme, 10 + len(self.asked)))

    def move(self, worker: str, unit: str = UNIT) -> None:
        """A user asks for it."""
        self._ask(MoveAsked(unit, worker, 10 + len(self.asked)))

    def back(self, worker: str, unit: str = UNIT) -> None:
        """Every replica has planned that the unit's standby is to be there."""
        for replica in self.replicas:
            replica.core.known.reassignment.want(unit, worker)

    def drill(self, unit: str = UNIT) -> None:
        """A user asks for it."""
        self._ask(DrillAsked(unit, 10 + len(self.asked)))

    def accept(self) -> None:
        """A user lets the versions lead that run now."""
        self._ask(VersionsAccepted(job_key(self.plan.job, self.plan.generation), 10 + len(self.asked)))

    def goal(self, kind: GoalKind, asked: int = -1, reason: str = "") -> None:
        """A controller states what is wanted of the job."""
        self.append("controller", (), [Goal(self.plan.job, self.plan.generation, kind, reason, asked)])

    def leave(self, name: str) -> None:
        """The worker is asked to stop; its next heartbeat says so."""
        self.workers[name].leaving = True

    def go_back(self, unit: str = UNIT) -> None:
        """A user wants the unit, or all of the job, back at the newest global checkpoint."""
        self._ask(RollbackAsked(job_key_of(UNIT), unit, 10 + len(self.asked)))

    def _ask(self, asked: Asking) -> None:
        self.asked.append(asked)
        for replica in self.replicas:
            self._observe(replica, asked)

    def add_worker(self, worker: Worker) -> None:
        """It starts now."""
        worker.phase_us = len(self.workers) * 30_000 % BEAT_US
        self.workers[worker.name] = worker

    def add_replica(self, echo: bool = True) -> Replica:
        """One that starts now and reads all logs from the beginning."""
        replica = Replica(
            f"r{len(self.replicas)}",
            Recovery(BEAT_US, ECHO_US if echo else None, self.calm_us, Reassignment(self.share)),
        )
        self.replicas.append(replica)
        self._observe(replica, DecisionRead(self.plan))
        for asked in self.asked:
            self._observe(replica, asked)
        self._feed(replica)
        self._observe(replica, CaughtUp())
        return replica

    # -- what they look at --------------------------------------------------------------------------------------------

    @property
    def story(self) -> list[str]:
        return self.replicas[-1].core.reading.story

    def unprotected(self) -> list[str]:
        return [unit for replica in self.replicas if replica.alive for unit in replica.core.known.unprotected()]

    def change(self, unit: str = UNIT) -> Change:
        change = self.checked.of(unit)
        assert change is not None
        return change

    def leader_of(self, unit: str = UNIT) -> str:
        return next(copy.worker for copy in self.change(unit).copies if copy.flags.commit)

    # -- how it goes --------------------------------------------------------------------------------------------------

    def publish(self, record: HeartbeatRecord) -> None:
        self.beats.append(record)

    def append(
        self,
        author: str,
        changes: Iterable[Change],
        goals: Iterable[Goal] = (),
        incidents: Iterable[Incident] = (),
        replications: Iterable[ReplicationPlan] = (),
        outages: Iterable[Outage] = (),
        format: int = 0,
    ) -> None:
        """One record; what is valid in it is checked."""
        record = Assignment(
            author, self.now_us // 1000, tuple(changes), goals=tuple(goals), incidents=tuple(incidents),
            replications=tuple(replications), outages=tuple(outages), format=format,
        )  # fmt: skip
        before = self.checked.units()
        for change in self.checked.read(record):
            if author != "stranger":
                switching.check_invariants(change)
            self.history.append(change)
            for watch in self.watchers:
                watch(before.get(change.unit), change)
        self.log.append(record)

    def _step(self) -> None:
        for worker in self.workers.values():
            worker.step(self)
        for replica in self.replicas:
            if replica.alive and replica.late_us <= 0:
                self._turn(replica)
            replica.late_us -= STEP_US
            replica.core.check_invariants()

    def _turn(self, replica: Replica) -> None:
        if self.broker_up:
            self._feed(replica)
            if self.now_us % ECHO_US == 0:
                self._observe(replica, EchoRead())
        self._append(replica, replica.core.tick(self.now_us))
        assert self.now_us <= replica.core.next_deadline() <= self.now_us + BEAT_US
        self._check_passed_over(replica.core)

    @staticmethod
    def _check_passed_over(core: Recovery) -> None:
        """Nothing is due for a unit that is not looked at."""
        known = core.known
        if not known.acting:
            return
        for unit in {*known.units()}.difference(known.unsettled(), known.proposed, core._queue):
            situation = known.situation(unit)
            assert situation is not None
            change = switching.next_change(situation, partial(room, known, situation, {}))
            assert change is None, f"passed over, though due: {change}"

    def _feed(self, replica: Replica) -> None:
        for record in self.beats[replica.beats_read :]:
            if record.worker not in replica.deaf:
                self._observe(replica, BeatRead(record))
        replica.beats_read = len(self.beats)
        while replica.read < len(self.log):
            replica.read += 1
            self._observe(replica, AssignmentRead(self.log[replica.read - 1], replica.read - 1))

    def _observe(self, replica: Replica, event: Event) -> None:
        self._append(replica, replica.core.observe(event, self.now_us))

    def _append(self, replica: Replica, changes: list[Change]) -> None:
        incidents, replica.core.incident_records = replica.core.incident_records, []
        made, replication = list(replica.core.known.replication.records), replica.core.known.replication
        replication.records.clear()
        outages, replica.core.known.outages.records = replica.core.known.outages.records, []
        if changes or incidents or made or outages:
            self.append(replica.name, changes, incidents=incidents, replications=made, outages=outages)
        while replication.questions:
            self._observe(replica, Replanned(answer(replication.questions.pop(0))))
