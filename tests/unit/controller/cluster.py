"""Controllers, recovery and pretended workers on a log in memory: a test tells a history and reads what was decided.

Nothing waits: the clock advances when a test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from holdfast.schemas import assignments, cuts, events, heartbeats, plans, progress
from holdfast.schemas.assignments import Change, Goal
from holdfast.schemas.cuts import CutRecord
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import CopyState, Exit, Heartbeat
from holdfast.schemas.plans import Decision, Plan, Status
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import ClusterTopics, JobTopics, Partition, TopicSpec
from holdfast.services.controller.conductor import Conductor
from holdfast.services.controller.core.actions import Action
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.core.events import Failed, Outcome
from holdfast.services.controller.effects import Means
from holdfast.services.controller.plan_snapshots import PlanSnapshots
from holdfast.services.controller.polled_conductor import PolledConductor
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.jobs import EVERY
from holdfast.services.log.memory import MemoryLog
from holdfast.services.recovery.polled_replica import PolledReplica as Recovery

T = TypeVar("T")

VERSIONS = {"holdfast": "test"}
BEAT_MS = 100
TURN_MS = 20
"""Recovery takes longer pauses between its turns for a process that stood still."""
CLUSTER = ClusterTopics("t")


def job(name: str = "job", **more: Any) -> dict[str, Any]:
    """A count by key, in three units: two source tasks and one that counts and delivers; nothing protects them unless
    the settings say so."""
    return {
        "name": name,
        "sources": {"s": {"topic": "in", "fields": {"x": "int"}, "parallelism": 2}},
        "operators": {"n": {"aggregate": {"n": "count()"}, "key": ["x"], "input": "s", "emit": "updates"}},
        "queries": {"q": {"input": "n", "sink": {"topic": f"out-{name}"}}},
        **more,
        "fault_tolerance": {"default": {"scheme": "none"}, **more.get("fault_tolerance", {})},
    }


class Crash(Exception):
    """The process is gone."""


class Replica:
    """One controller, which carries out its actions as its temper has it."""

    def __init__(self, name: str, cluster: Cluster, temper: Temper | None = None) -> None:
        self.core = Controller(name)
        self.conductor = _Tempered(
            cluster.log, CLUSTER, self.core, cluster.time_ms, Means(VERSIONS),
            PlanSnapshots(name, CLUSTER, cluster.rooted or EVERY, 0.5 if cluster.rooted else None),
        )  # fmt: skip
        self.conductor.temper = temper or Temper()
        self.polling = PolledConductor(self.conductor, cluster.log, cluster.time_ms)

    def turn(self) -> bool:
        came = self.conductor.catch_up()
        came |= self.polling.turn()
        self.core.check_invariants()
        return came


@dataclass
class Temper:
    """What goes wrong with the actions of a replica.

    crash_before: it is gone instead of carrying out an action for which this holds; crash_after: right after it.
    holds: it never gets round to such actions. fails: they fail. late: it carries them out only in its next turn, when
    every other replica has read what it had read.
    """

    crash_before: Callable[[Action], bool] = lambda _: False
    crash_after: Callable[[Action], bool] = lambda _: False
    holds: Callable[[Action], bool] = lambda _: False
    fails: Callable[[Action], bool] = lambda _: False
    late: Callable[[Action], bool] = lambda _: False


class _Tempered(Conductor):
    temper = Temper()
    put_off: tuple[Action, ...] = ()

    def catch_up(self) -> bool:
        due, self.put_off = self.put_off, ()
        self.settle(super().carry_out(due))
        return bool(due)

    def carry_out(self, taken: Sequence[Action]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for action in taken:
            if self.temper.crash_before(action):
                raise Crash
            if self.temper.fails(action):
                outcomes.append(Failed(action, "the broker does not answer"))
            elif self.temper.late(action):
                self.put_off += (action,)
            elif not self.temper.holds(action):
                outcomes += super().carry_out([action])
            if self.temper.crash_after(action):
                raise Crash
        return outcomes if taken else super().carry_out(())


class Cluster:
    """A log with the user's topics on it, replicas of the controller and of recovery, and obedient workers."""

    def __init__(self, replicas: int = 1, recoveries: int = 1, rooted: int = 0) -> None:
        """rooted: records of jobs between two snapshots, to which both logs are trimmed; 0: hardly any."""
        self.rooted = rooted
        self.now_ms = 1_700_000_000_000
        self.log = MemoryLog(self.time_ms)
        self.log.create(CLUSTER.specs())
        self.log.create([TopicSpec("in", 2), TopicSpec("out-job"), TopicSpec("out-other")])
        self._appender = self.log.appender("test")
        self.replicas: dict[str, Replica] = {}
        self.workers: dict[str, Worker] = {}
        self.recoveries: dict[str, Recovery] = {}
        for number in range(replicas):
            self.start_replica(f"c{number}")
        for number in range(recoveries):
            self.start_recovery(f"r{number}")

    def time_ms(self) -> int:
        return self.now_ms

    # -- processes ----------------------------------------------------------------------------------------------------

    def start_replica(self, name: str, temper: Temper | None = None) -> Replica:
        self.replicas[name] = Replica(name, self, temper)
        return self.replicas[name]

    def start_recovery(self, name: str) -> Recovery:
        self.recoveries[name] = Recovery(name, self.log, CLUSTER, BEAT_MS, lambda: self.now_ms * 1000)
        return self.recoveries[name]

    def start(self, name: str, incarnation: str = "", **more: Any) -> Worker:
        worker = Worker(self, name, incarnation or f"{self.now_ms}", **more)
        self.workers[name] = worker
        return worker

    def kill(self, name: str, notice: bool = False) -> None:
        worker = self.workers.pop(name)
        if notice:
            self.append(CLUSTER.heartbeats, heartbeats.encode(Exit(name, worker.incarnation, self.now_ms, -9)))

    # -- time ---------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Turns until nothing is read any more; the clock is stopped. A crashed replica is started again."""
        while any(
            [
                *[self._turn(name, replica) for name, replica in list(self.replicas.items())],
                *[self._recover(one) for one in self.recoveries.values()],
            ]
        ):
            pass

    @staticmethod
    def _recover(recovery: Recovery) -> bool:
        came = recovery.turn()
        recovery.replica.core.check_invariants()
        return came

    def _turn(self, name: str, replica: Replica) -> bool:
        try:
            return replica.turn()
        except Crash:
            del self.replicas[name]
            self.start_replica(f"{name}+")
            return True

    def pass_s(self, seconds: float) -> None:
        """Heartbeats go out, controllers and recovery turn."""
        for turn in range(round(seconds * 1000 / TURN_MS)):
            self.now_ms += TURN_MS
            if (turn + 1) % (BEAT_MS // TURN_MS) == 0:
                for worker in self.workers.values():
                    worker.beat()
            self.settle()

    # -- what a user does ---------------------------------------------------------------------------------------------

    def submit(self, record: Mapping[str, Any] | bytes) -> None:
        self.append(CLUSTER.submit, record if isinstance(record, bytes) else msgspec.json.encode(record))

    def command(self, command: str, name: str = "job", **more: str) -> None:
        self.submit({"command": command, "job": name, **more})

    # -- what is in the log -------------------------------------------------------------------------------------------

    def append(self, topic: str, value: bytes) -> None:
        self._appender.append(Partition(topic, 0), value)

    def read(self, topic: str, decode: Callable[[bytes], T]) -> list[T]:
        """Malformed records left out."""
        found = []
        for value in self.values(topic):
            with suppress(msgspec.DecodeError):
                found.append(decode(value))
        return found

    def values(self, topic: str) -> list[bytes]:
        return [message.value() or b"" for message in self.log.scan(Partition(topic, 0))]

    def decisions(self) -> list[Decision]:
        """The valid ones."""
        admitted = Admitted()
        return [d for d in self.read(CLUSTER.plans, plans.decode) if admitted.read(d)]

    def plan(self, name: str = "job") -> Plan:
        return next(d for d in self.decisions() if isinstance(d, Plan) and d.job == name)

    def names(self, name: str = "job") -> JobTopics:
        return CLUSTER.job(name, self.plan(name).generation)

    def changes(self) -> list[Change]:
        """The valid ones."""
        assigned = Assigned()
        return [c for r in self.read(CLUSTER.assignments, assignments.decode) for c in assigned.read(r)]

    def placed(self) -> dict[str, str]:
        """Worker/incarnation by unit."""
        return {
            change.unit.split("/")[1]: "".join(f"{c.worker}/{c.incarnation}" for c in change.copies)
            for change in self.changes()
        }

    def goals(self, name: str = "job") -> list[Goal]:
        """As they were stated, valid or not."""
        records = self.read(CLUSTER.assignments, assignments.decode)
        return [goal for record in records for goal in record.goals if goal.job == name]

    def statuses(self, name: str = "job") -> list[Status]:
        return [status for status in self.read(CLUSTER.status, plans.decode_status) if status.job == name]

    def states(self, name: str = "job") -> list[str]:
        """Each state once in a row."""
        found: list[str] = []
        for status in self.statuses(name):
            if found[-1:] != [status.state]:
                found.append(status.state)
        return found

    def controls(self) -> list[CutRecord]:
        return self.read(self.names().cuts, cuts.decode)

    def events(self) -> list[Event]:
        return self.read(CLUSTER.events, events.decode)

    def job_topics(self) -> list[str]:
        return sorted(topic for topic in self.log.topics() if topic.startswith("t.job."))

    def run_out(self, but: str = "") -> None:
        """Every unit but one has processed its end."""
        for unit in self.plan().units:
            if unit.name != but:
                self.tell(Progress(unit.name, 9, 9, records=10, late=3, late_dropped={"s": 2}, ended=True))

    def tell(self, record: Progress) -> None:
        """How far a unit is."""
        self._appender.append(Partition(self.names().progress, 0), progress.encode(record), key=record.unit.encode())

    def fill(self, topic: str, partition: int, count: int) -> None:
        for _ in range(count):
            self._appender.append(Partition(topic, partition), b"{}")


class Worker:
    """Runs, as far as anybody can tell, whatever is assigned to it."""

    def __init__(self, cluster: Cluster, name: str, incarnation: str, zone: str = "", slots: int = 8,
                 versions: Mapping[str, str] = VERSIONS) -> None:  # fmt: skip
        self.name, self.incarnation = name, incarnation
        self._cluster, self._zone, self._slots, self._versions = cluster, zone, slots, dict(versions)
        self.state, self.error, self.stopped = "running", "", ""
        self.stubborn = False

    def beat(self) -> None:
        """stubborn: it keeps reporting copies that were taken from it."""
        held = {} if not self.stubborn else {c.unit: c for c in self._cluster.changes() if self._names(c)}
        held |= {change.unit: change for change in self._last() if self._names(change)}
        beat = Heartbeat(
            worker=self.name,
            incarnation=self.incarnation,
            time_ms=self._cluster.now_ms,
            zone=self._zone,
            slots=self._slots,
            versions=self._versions,
            copies=tuple(
                CopyState(c.unit, c.epoch, self.state, error=self.error, stopped=self.stopped) for c in held.values()
            ),
        )
        self._cluster.append(CLUSTER.heartbeats, heartbeats.encode(beat))

    def _last(self) -> list[Change]:
        return list({change.unit: change for change in self._cluster.changes()}.values())

    def _names(self, change: Change) -> bool:
        return any((c.worker, c.incarnation) == (self.name, self.incarnation) for c in change.copies)
