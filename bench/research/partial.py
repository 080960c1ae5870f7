"""A tree of units on real workers that are lost at once, by the budget of replicas: one run of figure P10W.

Eight sources merge 8-4-2-1. The sources are led by one worker, which lives; the units that merge by another one, a host
of its own that is killed without a word. Replicas are on a third, which lives, too. MECHANISMS P10 to P13.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import msgspec

from bench.failover.observer import Observer
from bench.outages.rounds import Out
from bench.outages.rows import Rows
from bench.research.incident import Host
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, folder_of_its_own, now_ms
from bench.rig.feeder import Feeder
from bench.rig.followed import MeasureFailed
from bench.rig.following import Following
from bench.rig.saying import say
from holdfast.schemas import commands, formats, heartbeats
from holdfast.schemas.assignments import job_key
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.audit.replay import replay
from holdfast.services.kernel.dataflow.sink_records import RowsOf
from holdfast.services.log.protocol import Log
from holdfast.services.view.reader import read_all

SOURCES, KEYS, RATE_PER_S, INTERVAL_MS = 8, 24, 240, 200
"""A key is of one source: of a query that lacks sources the rows of the others are true."""
MERGING = SOURCES - 1
FIRST = f"merge{SOURCES // 2}-0"
"""The unit that is lost where one worker is."""
CALM_S, AWAY_S, MOVED_S, PATIENCE_S, LOOK_S = 8.0, 10.0, 20.0, 180.0, 0.1
READY_S, CALM_TRIES = 300.0, 5
"""Patience until every replica is made, also on a busy machine; tries to find no unit moved in CALM_S."""
MANY = 64
VARIABLES = {"HOLDFAST_BALANCE_CALM_S": "0", "HOLDFAST_REASSIGN": "off", "HOLDFAST_CLUSTER_SECRET": "off"}
"""No unit moves by itself; hosts that are added by hand need no secret."""
LOST, SOURCE_HOST, REPLICA_HOST, NEW = "lost", "sources", "replicas", "new"


@dataclass(frozen=True, slots=True)
class Case:
    """A run.

    Attributes:
        budget: share of the units that may have a replica.
        one: only the unit FIRST is lost; otherwise every unit that merges.
        away: the other workers have no room for what is lost, and one that has room comes after AWAY_S.
        checkpoint_ms: time between two checkpoints.
    """

    budget: float = 0.0
    one: bool = False
    away: bool = False
    checkpoint_ms: int = 5_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a run, with times in seconds since the loss.

    Attributes:
        detected_s: time until recovery has decided about the first lost unit.
        recovered_s: time until the last lost unit has done all that it had done before.
        first_s: time until a read_committed reader had a tentative row; None without one.
        promised: output fidelity by the plan of replicas.
        stated: lowest fidelity in `assignments` meanwhile.
        accuracy: share of the final rows of windows with tentative rows that these held; None without such a row.
        checkpoint_share: share of a processor that the checkpoints of the units that merge took before.
        inexact: number of rows lost, doubled or wrong, and of keys that stayed tentative.
    """

    detected_s: float
    recovered_s: float
    first_s: float | None
    promised: float
    stated: float
    accuracy: float | None
    checkpoint_share: float
    inexact: int


def run(case: Case) -> Outcome:
    """Raises MeasureFailed."""
    with folder_of_its_own(say) as cluster, ExitStack() as stack:
        cluster.start(0, VARIABLES)
        return _Run(cluster, case, stack).outcome()


class Captures(Following):
    """Times that captures have taken, by unit, as heartbeats say."""

    def __init__(self, log: Log, topic: str) -> None:
        super().__init__(log, "captures", [Partition(topic, 0)])
        self._ms: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def _turn(self) -> None:
        for chunk in self._reader.poll(LOOK_S):
            for message in chunk.messages:
                with suppress(msgspec.DecodeError):
                    beat = heartbeats.decode(message.value() or b"")
                    if isinstance(beat, Heartbeat):
                        self.read(beat)

    def read(self, beat: Heartbeat) -> None:
        with self._lock:
            self._ms |= {(beat.incarnation, one.unit): one.capture_ms for one in beat.costs}

    def ms(self, unit: Callable[[str], bool]) -> float:
        """The sum over all copies of these units."""
        with self._lock:
            return sum(ms for (_, key), ms in self._ms.items() if unit(key.rpartition("/")[2]))


def merges(unit: str) -> bool:
    """The unit has no source."""
    return not unit.startswith("events")


def recovered_ms(active: Event) -> float:
    """The time at which a unit had recovered. The event comes with the last phase, mostly the first output."""
    phases = active.phases_ms
    ended = phases.get("activation", 0.0) + phases.get("replay", 0.0)
    return active.time_ms - max(ended, phases.get("first_output", 0.0), phases["recovered"]) + phases["recovered"]


class _Run:
    def __init__(self, cluster: BenchCluster, case: Case, stack: ExitStack) -> None:
        self._cluster = cluster
        self._case = case
        self._stack = stack
        self._hosts: dict[str, Host] = {}
        self._asked_ms = 0.0

    def outcome(self) -> Outcome:
        cluster, case, topic = self._cluster, self._case, "events"
        cluster.log.create([TopicSpec(topic, SOURCES), TopicSpec(f"{topic}-out", 1)])
        self._arrive(LOST, MANY)
        together = 1 if case.away else 1_000
        settings = {"interval_ms": INTERVAL_MS, "checkpoint_ms": case.checkpoint_ms, "together": together}
        job = self._stack.enter_context(
            cluster.running(jobs.tree(SOURCES), topic, name="tree", budget=case.budget, **settings)
        )
        job.await_running()
        out = Out(job_key(job.plan.job, job.plan.generation))
        rows = Rows(cluster.log, f"{topic}-out", RowsOf(job.plan.job, job.plan.generation, "counts"))
        captures = Captures(cluster.log, cluster.topics.heartbeats)
        feeder = Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record, SOURCES)
        with Observer(cluster.log, cluster.topics, out.read) as observer, rows, captures, feeder:
            self._job = job
            self._observer = observer
            self._out = out
            self._rows = rows
            self._prepare()
            share = self._calm(captures)
            since_ms = now_ms()
            lost = self._strike()
            recovered_s = self._recovered_s(lost, since_ms)
            self._until(lambda: not out.names and not rows.open, f"{rows.open} rows stay tentative")
        job.await_records(len(feeder.sent_ms))
        job.watch(1.0)  # the last rows
        found = replay(cluster.log, cluster.topics, job.plan.job).rows
        first_ms = rows.first_after(since_ms)
        return Outcome(
            self._detected_s(lost, since_ms),
            recovered_s,
            None if first_ms is None else (first_ms - since_ms) / 1000,
            self._promised(),
            out.fidelity,
            rows.accuracy(),
            share,
            found.lost + found.duplicated + found.wrong + rows.open + rows.untrue(),
        )

    # -- before the loss ----------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Every unit was placed on the one worker; sources go to another one, replicas to a third."""
        case, units = self._case, [unit.name for unit in self._job.plan.units]
        replicas = int(case.budget * len(units))
        kept = len(units) - (1 if case.one else MERGING)
        self._arrive(SOURCE_HOST, kept if case.away else MANY)
        if replicas:
            self._arrive(REPLICA_HOST, replicas if case.away else MANY, standbys=-1)
        workers = 3 if replicas else 2
        self._until(lambda: self._observer.workers() == workers, "not every worker came")
        self._until(self._arranged, "units are not where they are wanted")

    def _ready(self) -> bool:
        arranged = self._arranged()  # first: a unit that has changed its host is unprotected until it is moved back
        told = arranged and self._out.format >= formats.TENTATIVE and self._observer.protected()
        replicas = int(self._case.budget * len(self._job.plan.units))
        return told and (not replicas or len(self._planned()) == replicas == self._replicas())

    def _unready(self) -> str:
        """Words for what a cluster lacks that is not ready, with the last change of one unit that lacks it."""
        missing = self._observer.unprotected()
        last = [self._observer.change(self._job.plan.job, key.rpartition("/")[2]) for key in missing[:1]]
        stands = [f"{one.unit} under {one.scheme} on {len(one.copies)} workers: {one.reason}" for one in last]
        return (
            f"not ready: format {self._out.format}, {len(self._planned())} units planned, {self._replicas()} replicas, "
            f"unprotected: {' '.join(missing)}; {''.join(stands)}"
        )

    def _arranged(self) -> bool:
        """Asks for moves now and then."""
        job = self._job.plan
        wrong = {one.name: self._home(one.name) for one in job.units if not self._at_home(one.name)}
        if wrong and now_ms() - self._asked_ms >= MOVED_S * 1000:
            self._asked_ms = now_ms()
            names = {self._host(worker): worker for worker in self._pids()}
            for unit, home in wrong.items():
                self._append(commands.encode(Command("move", job.job, unit=unit, worker=names[home])))
        return not wrong

    def _home(self, unit: str) -> str:
        return LOST if (unit == FIRST if self._case.one else merges(unit)) else SOURCE_HOST

    def _at_home(self, unit: str) -> bool:
        return self._host(self._observer.leader_of(self._job.plan.job, unit)) == self._home(unit)

    def _host(self, worker: str) -> str:
        return next((name for name in self._hosts if worker.startswith(name)), "")

    def _planned(self) -> tuple[str, ...]:
        plan = self._observer.replication(job_key(self._job.plan.job, self._job.plan.generation))
        return () if plan is None else plan.units

    def _promised(self) -> float:
        plan = self._observer.replication(job_key(self._job.plan.job, self._job.plan.generation))
        return 0.0 if plan is None else plan.fidelity

    def _replicas(self) -> int:
        job = self._job.plan.job
        return sum(len(self._observer.copies(job, unit.name)) > 1 for unit in self._job.plan.units)

    def _calm(self, captures: Captures) -> float:
        """Share of a processor that captures take. A busy machine misses heartbeats, and units leave their hosts."""
        for _ in range(CALM_TRIES):
            self._until(self._ready, self._unready, READY_S)
            began_ms, before = now_ms(), captures.ms(merges)
            self._job.watch(CALM_S)
            if self._ready():
                return (captures.ms(merges) - before) / (now_ms() - began_ms)
        raise MeasureFailed(f"in {CALM_TRIES} tries, units did not stay where they are wanted for {CALM_S:g} s")

    # -- the loss -----------------------------------------------------------------------------------------------------

    def _strike(self) -> list[str]:
        """Returns the units that the worker led."""
        job = self._job.plan
        lost = [one.name for one in job.units if self._home(one.name) == LOST]
        pid = next((pid for worker, pid in self._pids().items() if self._host(worker) == LOST), None)
        self._out.begin(now_ms())
        self._hosts.pop(LOST).kill(pid)
        if self._case.away:
            self._job.watch(AWAY_S)
            self._arrive(NEW, MANY, standbys=-1)
        return lost

    def _detected_s(self, lost: list[str], since_ms: float) -> float:
        decided = (one for one in self._job.events if one.kind == "decided" and one.unit in lost)
        return (min(one.time_ms for one in decided if one.time_ms >= since_ms) - since_ms) / 1000

    def _recovered_s(self, lost: list[str], since_ms: float) -> float:
        def at_ms() -> dict[str, float]:
            done = [one for one in self._job.events if one.time_ms >= since_ms and "recovered" in one.phases_ms]
            return {one.unit: recovered_ms(one) for one in reversed(done) if one.unit in lost}

        self._until(lambda: len(at_ms()) == len(lost), lambda: f"not recovered: {sorted(set(lost) - set(at_ms()))}")
        return (max(at_ms().values()) - since_ms) / 1000

    # -- the cluster --------------------------------------------------------------------------------------------------

    def _arrive(self, name: str, slots: int, standbys: int = 0) -> None:
        variables: Mapping[str, str] = {
            **VARIABLES, "HOLDFAST_SLOTS": str(slots), "HOLDFAST_STANDBYS": str(standbys)
        }  # fmt: skip
        host = Host(name, self._cluster.folder / "hosts" / name, self._cluster.bootstrap_servers, variables)
        self._hosts[name] = host
        self._stack.callback(host.stop)

    def _pids(self) -> dict[str, int]:
        lines = read_all(self._cluster.door()).workers(int(now_ms()))
        return {line.worker: line.pid for line in lines if line.state in ("live", "stuck")}

    def _append(self, record: bytes) -> None:
        self._cluster.appender.append(Partition(self._cluster.topics.submit, 0), record)
        self._cluster.appender.flush(PATIENCE_S)

    def _until(
        self, reached: Callable[[], bool], otherwise: str | Callable[[], str], within_s: float = PATIENCE_S
    ) -> None:
        deadline_ms = now_ms() + within_s * 1000
        while not reached():
            if now_ms() > deadline_ms:
                what = otherwise if isinstance(otherwise, str) else otherwise()
                raise MeasureFailed(f"{what} after {within_s:g} s")
            self._job.watch(LOOK_S)
            for host in self._hosts.values():
                host.look()


def record(index: int) -> bytes:
    return jobs.record(index, KEYS, int(now_ms()))
