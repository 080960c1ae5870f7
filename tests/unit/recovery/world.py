"""A tiny cluster on a manual clock: workers that drive copies and report states, and replicas of the recovery core.

Everything is a function of the calls made on it: no threads, no real time. Invariants are checked after every record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from holdfast.schemas.assignments import (
    PRIMARY,
    Assignment,
    Change,
    Copy,
    Goal,
    GoalKind,
    ReplicationPlan,
    job_key,
    job_key_of,
    unit_key,
)
from holdfast.schemas.costs import Costs
from holdfast.schemas.decided import Id
from holdfast.schemas.heartbeats import Exit, HeartbeatRecord
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
from tests.unit.recovery.workers import BEAT_US, ECHO_US, NEW, OLD, OTHER, STEP_US, Shared, Worker

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
