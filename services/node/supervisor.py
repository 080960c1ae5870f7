"""Supervisor: starts the processes of a cluster on this machine, and restarts those that end, until asked to stop.

`python -m services.node.supervisor` is the one behind `holdfast up --detach`. All of its processes die with it.
"""

from __future__ import annotations

import argparse
import math
import os
import queue
import shutil
import signal
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import msgspec

from schemas.topics import ClusterTopics
from services.kernel.errors import HoldfastError
from services.log.durability import Durability
from services.log.opening import expect_secret, open_log
from services.log.protocol import Log
from services.log.service_log import keep_printing
from services.node.artifacts import ArtifactSet, ArtifactsMissing, ensure
from services.node.broker import BrokerFailed, BrokerRunning, EmbeddedKafka
from services.node.brokers import Brokers, brokers_in
from services.node.clashes import Clash, Neighbours, living_stranger, look_around, running_at
from services.node.cluster_files import AlreadyRunning, Cluster, ClusterFiles, WorkerProcess
from services.node.disk import Disk, shortage
from services.node.java import JavaMissing
from services.node.members import Member
from services.node.naming import Naming, machine_name
from services.node.notices import Notices
from services.node.readiness import Readiness
from services.node.restarts import Restarts
from services.node.settings import Settings
from services.node.spark_members import SparkDemand
from services.worker.process.settings import new_incarnation

READY_S = 180.0
"""A process that crashes at start-up fails the start at once; a slow one, on a busy machine, gets the full time-out."""
TICK_S = 0.25
LOGS_S = 5.0
PUBLISH_AGAIN_S = 1.0
AGAIN_S = 30.0
YIELD_S = 0.3
"""A worker that ended stays down so long where there are others: a start takes a core, which the copies that take over
from it need more."""
LINGER_S = 300.0
"""A Spark driver that no job needs any more stays for so long: the next job need not wait for a JVM."""

EXPECTED = (AlreadyRunning, ArtifactsMissing, BrokerFailed, BrokerRunning, HoldfastError, JavaMissing)
"""Why a cluster does not start; the message says what to do."""


class StartFailed(HoldfastError):
    """The cluster did not become ready."""


class Stopped(Exception):
    """Told to stop before it was ready."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """A run of a member, or of a broker, has ended."""

    who: Member | EmbeddedKafka
    status: int


@dataclass(frozen=True, slots=True)
class _Returned:
    """A broker that had ended answers again. status: with which it had ended."""

    broker: EmbeddedKafka
    status: int


class Supervisor:
    """One cluster in one data directory. Its methods are for one thread, except `ask_to_stop`."""

    def __init__(self, settings: Settings, workers: int, changed: Callable[[], None] = lambda: None) -> None:
        self.settings = settings
        self.files = ClusterFiles(settings.home)
        self.brokers = None if settings.kafka else self._embedded()
        self.topics = ClusterTopics(settings.cluster)
        self.state = "starting"
        self.naming = Naming((settings.host or machine_name()) if settings.kafka else "", settings.zone)
        self._machine = settings.host or machine_name()
        self.controller = self._controller()
        self.recoveries = [self._recovery(number) for number in range(1, settings.recoveries + 1)]
        self.workers = [self._worker(number) for number in range(1, workers + 1)]
        for worker in self.workers:
            worker.rest_s, worker.dying = YIELD_S if workers > 1 else 0.0, self._dying
            worker.ends_by = signal.SIGINT  # SIGTERM would wait for others to take over its units, which all end now
        self.drivers: list[Member] = []
        self._demand: SparkDemand | None = None
        self._looked_at_plans = self._needed_drivers = 0.0
        self._changed = changed
        self._queue: queue.SimpleQueue[_Ended | _Returned | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._servers = settings.kafka or ""
        self._log: Log | None = None
        self._notices: Notices | None = None
        self._noticed: dict[str, str] = {}
        self._broker_restarts: defaultdict[int, Restarts] = defaultdict(Restarts)
        self._started_ms = int(time.time() * 1000)
        self._identity = ""
        self._claimed = False
        self.disk = Disk(self.files.data_dir, self._tell)
        self._unpublished_s = math.inf
        self._watched: dict[int, float] = {}

    # -- what a person does -------------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """May be called from a signal handler."""
        self._stopping.set()
        self._queue.put(None)

    def start(self, timeout_s: float = READY_S) -> None:
        """Returns when jobs can be submitted.

        Raises:
            Stopped: asked to stop meanwhile. One of EXPECTED: it cannot start; nothing is left running.
        """
        try:
            self.files.take()
        except OSError as error:
            raise self._unwritten(error) from error
        try:
            self._start(timeout_s)
        except OSError as error:
            self.stop()
            raise self._unwritten(error) from error
        except BaseException:
            self.stop()
            raise

    def _unwritten(self, error: OSError) -> StartFailed:
        why = shortage(self.files.data_dir) or f"{error.filename or self.files.data_dir}: {error.strerror or error}"
        return StartFailed(f"the cluster cannot be started: {why}")

    def run(self) -> None:
        """Keeps all running until asked to stop."""
        looked_at_logs = time.monotonic()
        while not self._stopping.is_set():
            self._turn(TICK_S)
            if time.monotonic() - looked_at_logs > LOGS_S:
                looked_at_logs = time.monotonic()
                self.disk.look()
                for member in self.members:
                    self.disk.tries(f"the log of {member.name}", member.bound_log)

    def stop(self) -> None:
        """Workers first, the broker last."""
        self._stopping.set()
        self.state = "stopping"
        self._changed()
        for group in ([*self.drivers, *self.workers], [*self.recoveries, self.controller]):
            for member in group:
                member.ask_to_stop()
            for member in group:
                member.stop()
        if self._demand is not None:
            self._demand.close()
        if self._notices is not None:
            if self._claimed:
                self._notices.claim(self._first_name, self.address, back=True)
            self._notices.close()
        if self._log is not None:
            self._log.close()
        if self.brokers is not None:
            self.brokers.stop()
        self.disk.tries("the cluster's files", self.files.forget)
        self.files.release()

    @property
    def members(self) -> list[Member]:
        return [self.controller, *self.recoveries, *self.hosts]

    @property
    def hosts(self) -> list[Member]:
        """Whatever takes units."""
        return [*self.workers, *self.drivers]

    @property
    def cluster(self) -> Cluster:
        running = () if self.brokers is None else self.brokers.pids.values()
        pids = tuple(pid for pid in running if pid is not None)
        return Cluster(
            state=self.state,
            pid=os.getpid(),
            bootstrap_servers=self._servers,
            prefix=self.settings.cluster,
            data_dir=str(self.files.data_dir),
            kafka_pid=pids[0] if pids else None,
            kafka_pids=pids,
            controller_pid=self.controller.pid,
            recovery_pids=tuple(one.pid for one in self.recoveries if one.pid is not None),
            started_ms=self._started_ms,
            plugins=self.settings.plugins,
            host=self.naming.host,
            secret_file=self._secret_file,
        )

    @property
    def address(self) -> str:
        """Where its processes run: machine and directory, whatever the host is called."""
        return f"{socket.gethostname()}:{self.files.data_dir}#{self._identity}"

    @property
    def _secret_file(self) -> str:
        file = self.settings.cluster_secret_file
        return str(file.absolute()) if file else ""

    # -- starting -----------------------------------------------------------------------------------------------------

    def _start(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        former = {worker.worker: worker.incarnation for worker in self.files.workers()}
        self._identity = self.files.identity()
        self.files.forget()
        shutil.rmtree(self.files.data_dir / "state", ignore_errors=True)
        if self.brokers is not None:
            self._start_brokers(self.brokers)
        log = self._log = open_log(self._servers, self.settings.cluster, "supervisor")
        log.create(self._durability().of(self.topics.specs()))
        expect_secret(log, self.topics)
        known = self._neighbours(log)
        self._notices = Notices(log, self.topics)
        self._notices.warm_up({**{worker.name: "0" for worker in self.workers}, **former})
        self._claim_names(log, self._notices)
        for worker in self.workers:
            worker.run = max(former.get(worker.name, ""), known.get(worker.name, ""))
        readiness = Readiness(log, self.topics, new_incarnation(), Neighbours(self.naming, self.address))
        try:
            self._await(readiness, deadline)
        finally:
            readiness.close()
        self._demand = SparkDemand(log, self.topics)
        self.state = "ready"
        self._publish()

    def _await(self, readiness: Readiness, deadline: float) -> None:
        """Starts the members and waits for a sign of each."""
        self._turn(0)
        while not readiness.reached({worker.name for worker in self.workers}):
            if self._stopping.is_set():
                raise Stopped
            failing = next((m for m in self.members if m.restarts > 2), None)
            if failing is not None:
                raise StartFailed(f"{failing.name} ends as soon as it starts: see {failing.log}\n{_tail(failing.log)}")
            if self.settings.kafka and readiness.stranger is not None:
                raise self._clash(running_at(readiness.stranger))
            if time.monotonic() > deadline:
                silent = ", ".join(readiness.missing({worker.name for worker in self.workers}))
                raise StartFailed(f"no sign of life of {silent} in time: see {self.files.logs}")
            self._turn(0)
            readiness.poll(0.02)

    def _neighbours(self, log: Log) -> dict[str, str]:
        """The newest incarnations of our names on a Kafka that others share. Raises Clash."""
        if not self.settings.kafka:
            return {}
        neighbours = Neighbours(self.naming, self.address)
        stranger = living_stranger(log, self.topics, neighbours, self.settings.heartbeat_interval_ms)
        if stranger is not None:
            raise self._clash(running_at(stranger))
        return neighbours.incarnations

    def _claim_names(self, log: Log, notices: Notices) -> None:
        """Before a worker starts, whose incarnations would sort behind those of another's. Raises Clash."""
        if not self.settings.kafka:
            return
        self._claimed = True
        notices.claim(self._first_name, self.address)
        neighbours = Neighbours(self.naming, self.address)
        look_around(log, self.topics, neighbours)
        holder = neighbours.holder(int(time.time() * 1000))
        if holder not in ("", self.address):
            raise self._clash(f"a supervisor at {holder} has just started with these names")

    @property
    def _first_name(self) -> str:
        """A claim to it is one to all names of the host."""
        return self.naming.name("worker-1")

    def _clash(self, what: str) -> Clash:
        return Clash(what, self.naming.host, os.getpid(), self.address)

    def _embedded(self) -> Brokers:
        return brokers_in(self.files.data_dir / "kafka", self.settings.brokers, self.settings.kafka_port)

    def _start_brokers(self, brokers: Brokers) -> None:
        brokers.start()
        self._servers = brokers.bootstrap_servers
        for node in brokers.nodes:
            self._watch(node)
        self._publish()

    def _watch(self, broker: EmbeddedKafka) -> None:
        child, self._watched[broker.node] = broker.child, time.monotonic()
        ended = threading.Thread(target=lambda: self._queue.put(_Ended(broker, child.wait())), daemon=True)
        ended.start()

    def _durability(self) -> Durability:
        """A setting that is not given is left to the broker, which knows how many brokers there are."""
        said = self.settings.model_fields_set
        return Durability(**{
            name: getattr(self.settings, name) for name in ("replication_factor", "min_insync_replicas") if name in said
        })  # fmt: skip

    # -- keeping it running -------------------------------------------------------------------------------------------

    def _turn(self, timeout_s: float) -> None:
        """Takes what has ended, starts what is due, and waits for the next of either."""
        self._provide_drivers()
        for member in self.members:
            if member.due is not None and member.due <= time.monotonic() and not self._stopping.is_set():
                self._start_member(member)
                self._publish()
        if time.monotonic() > self._unpublished_s + PUBLISH_AGAIN_S:
            self._publish()
        due = [member.due for member in self.members if member.due is not None]
        wait = max(0.0, min([timeout_s, *(at - time.monotonic() for at in due)]))
        with suppress(queue.Empty):
            ended = self._queue.get(timeout=wait) if wait else self._queue.get_nowait()
            if ended is not None and not self._stopping.is_set():
                self._react(ended)

    @staticmethod
    def _start_member(member: Member) -> None:
        """A process that cannot be started, for want of memory or descriptors, is retried like one that ended."""
        try:
            member.start()
        except OSError as error:
            _say(f"{member.name} cannot be started: {error}")

    def _provide_drivers(self) -> None:
        """As many Spark drivers as the jobs need; they end together, some time after the last job that needed one."""
        if self._demand is None or time.monotonic() - self._looked_at_plans < TICK_S:
            return
        self._looked_at_plans = time.monotonic()
        wanted = self._demand.drivers()
        while len(self.drivers) < wanted:
            try:
                self.drivers.append(self._driver(len(self.drivers) + 1, ensure("spark")))
            except (*EXPECTED, OSError) as error:
                self._looked_at_plans += AGAIN_S
                _say(f"no Spark driver can be started: {error}")
                return
        if wanted or not self.drivers:
            self._needed_drivers = time.monotonic()
        elif time.monotonic() - self._needed_drivers > LINGER_S:
            gone, self.drivers = self.drivers, []
            for driver in gone:
                driver.stop()
            self._publish()

    def _react(self, happened: _Ended | _Returned) -> None:
        match happened:
            case _Ended(EmbeddedKafka() as broker, status):
                _say(f"Kafka{self._which(broker)} ended with status {status}: starting it again")
                threading.Thread(target=self._restart_broker, args=(broker, status), daemon=True).start()
            case _Ended(Member() as member):
                member.settle()
            case _Returned(broker, status):
                self._returned(broker, status)
        self._publish()

    def _restart_broker(self, broker: EmbeddedKafka, status: int) -> None:
        """In a thread of its own, again and again until Kafka answers: everything else continues meanwhile.

        A Kafka that keeps ending by itself, as one whose disk is full, gets ever longer pauses.
        """
        assert self.brokers is not None
        restarts, what = self._broker_restarts[broker.node], f"Kafka{self._which(broker)}"
        lived_s = time.monotonic() - self._watched.get(broker.node, 0.0)
        delay = 0.0 if status < 0 else restarts.delay_s(lived_s)
        while not self._stopping.wait(delay):
            try:
                if self.disk.has_room(what):
                    self.brokers.restart(broker)
                    break
            except Exception as error:  # any error: nothing works without Kafka
                _say(f"{type(error).__name__}: {error}")
            delay = restarts.delay_s(0)
        else:
            return
        self.disk.succeeds(what)
        self._queue.put(_Returned(broker, status))

    def _returned(self, broker: EmbeddedKafka, status: int) -> None:
        """If its port was taken meanwhile, every process is restarted."""
        self._watch(broker)
        if self._notices is not None:
            self._notices.tell("kafka-restarted", detail=f"it{self._which(broker)} had ended with status {status}")
        former = self._servers
        if self.brokers is not None and (servers := self.brokers.bootstrap_servers) != former:
            self._servers = servers
            for member in self.members:
                member.ask_to_stop()

    def _which(self, broker: EmbeddedKafka) -> str:
        return f" (broker {broker.node})" if self.brokers is not None and len(self.brokers.nodes) > 1 else ""

    def _dying(self, member: Member, run: str) -> None:
        """From a thread that waits for this: the notice need not wait until the process is gone and has a status."""
        self._noticed[member.name] = run
        self._give_notice(member, run, -signal.SIGKILL)

    def _ended(self, member: Member, run: str, status: int) -> None:
        """From the thread that saw it: nothing comes before the notice."""
        if self._noticed.get(member.name) != run:
            self._give_notice(member, run, status)
        self._queue.put(_Ended(member, status))
        if not self._stopping.is_set():
            _say(f"{member.name} ({run}) ended with status {status}")
        shutil.rmtree(self._state_dir / member.name / run, ignore_errors=True)

    def _give_notice(self, member: Member, run: str, status: int) -> None:
        if self._notices is not None and member in self.hosts and self.settings.exit_notices:
            self._notices.ended(member.name, run, status)

    def _publish(self) -> None:
        """Says what runs; where there is no room for that, until there is."""
        written = self.disk.tries("the cluster's files", self._write_files)
        self._unpublished_s = math.inf if written else time.monotonic()
        self._changed()

    def _write_files(self) -> None:
        self.files.write_workers([self._process(member) for member in self.hosts])
        self.files.write_cluster(self.cluster)

    def _tell(self, kind: str, detail: str) -> None:
        _say(f"{kind}: {detail}")
        if self._notices is not None:
            self._notices.tell(kind, detail=detail)

    # -- members ------------------------------------------------------------------------------------------------------

    @property
    def _state_dir(self) -> Path:
        return self.files.data_dir / "state"

    def _controller(self) -> Member:
        name = self.naming.name("controller")
        return self._member(
            name, "services.controller", lambda run: {"HOLDFAST_CONTROLLER": f"{name}-{run}"}, new_incarnation
        )

    def _worker(self, number: int) -> Member:
        name = self.naming.name(f"worker-{number}")
        own = {
            "HOLDFAST_WORKER": name,
            "HOLDFAST_ZONE": self.naming.zone(number),
            "HOLDFAST_SLOTS": str(self.settings.slots),
            "HOLDFAST_LEAVE_S": str(self.settings.leave_s),
            "HOLDFAST_STATE_DIR": str(self._state_dir),
            "HOLDFAST_HEARTBEAT_INTERVAL_MS": str(self.settings.heartbeat_interval_ms),
        }
        return self._member(name, "services.worker", lambda run: {**own, "HOLDFAST_INCARNATION": run}, new_incarnation)

    def _recovery(self, number: int) -> Member:
        name = self.naming.name(f"recovery-{number}")
        port = self.settings.metrics_port
        own = {
            "HOLDFAST_HEARTBEAT_INTERVAL_MS": str(self.settings.heartbeat_interval_ms),
            "HOLDFAST_BALANCE_CALM_S": str(self.settings.balance_calm_s),
            "HOLDFAST_METRICS_PORT": str(port and port + number - 1),
        }
        return self._member(
            name, "services.recovery", lambda run: {**own, "HOLDFAST_RECOVERY": f"{name}-{run}"}, new_incarnation
        )

    def _driver(self, number: int, jars: ArtifactSet) -> Member:
        name = self.naming.name(f"spark-{number}")
        own = {
            "HOLDFAST_DRIVER": name,
            "HOLDFAST_ZONE": self.naming.zone(number),
            "HOLDFAST_SPARK_DIR": os.environ.get("HOLDFAST_SPARK_DIR") or str(self.files.data_dir / "spark"),
            "HOLDFAST_SPARK_JARS": ",".join(str(jars.directory / jar) for jar in sorted(jars.sums)),
            "HOLDFAST_SPARK_MASTER": self.settings.spark_master,
            "HOLDFAST_SPARK_MEMORY": self.settings.spark_memory,
            "HOLDFAST_HEARTBEAT_INTERVAL_MS": str(self.settings.heartbeat_interval_ms),
        }
        return self._member(name, "services.spark", lambda run: {**own, "HOLDFAST_INCARNATION": run}, new_incarnation)

    def _member(
        self, name: str, module: str, own: Callable[[str], dict[str, str]], new_run: Callable[[str], str]
    ) -> Member:
        def environment(run: str) -> dict[str, str]:
            shared = {"HOLDFAST_KAFKA": self._servers, "HOLDFAST_CLUSTER": self.settings.cluster}
            if secret := self._secret_file:
                shared["HOLDFAST_CLUSTER_SECRET_FILE"] = secret
            where = {"HOLDFAST_HOST": self._machine, "HOLDFAST_ADDRESS": self.address}
            return {**shared, **where, "HOLDFAST_HOME": str(self.files.data_dir), **own(run)}

        log = self.files.logs / f"{name}.log"
        return Member(name, module, log, environment=environment, new_run=new_run, ended=self._ended)

    def zone_of(self, worker: Member) -> str:
        return self.naming.zone(int(worker.name.rpartition("-")[2]))

    def _process(self, worker: Member) -> WorkerProcess:
        return WorkerProcess(worker.name, worker.run, worker.pid, self.zone_of(worker), worker.restarts)


def stop_on_signals(supervisor: Supervisor) -> None:
    """SIGTERM, SIGINT and a closed terminal end it in good order."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        supervisor.ask_to_stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)


def _tail(log: Path) -> str:
    from services.node.processes import tail

    return tail(log, 15)


def _say(text: str) -> None:
    """Into the supervisor's log; in the foreground the live summary says it."""
    if not sys.stderr.isatty():
        with suppress(OSError):  # it is a file on a disk that may be full
            print(time.strftime("%Y-%m-%dT%H:%M:%S"), text, file=sys.stderr, flush=True)


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """The daemon's answer to the command that started it: the cluster is ready, or why not."""

    cluster: Cluster | None = None
    error: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m services.node.supervisor")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--tell", type=int, required=True, help="descriptor to tell on when it is ready")
    arguments = parser.parse_args()
    keep_printing()
    supervisor = Supervisor(Settings(), arguments.workers)
    stop_on_signals(supervisor)
    try:
        supervisor.start()
    except Stopped:
        return 0
    except EXPECTED as error:
        _tell(arguments.tell, Told(error=str(error) or type(error).__name__))
        return 1
    _tell(arguments.tell, Told(supervisor.cluster))
    supervisor.run()
    supervisor.stop()
    return 0


def _tell(descriptor: int, told: Told) -> None:
    with suppress(OSError), os.fdopen(descriptor, "wb") as pipe:  # nobody may be listening any more
        pipe.write(msgspec.json.encode(told))


if __name__ == "__main__":
    sys.exit(main())
