"""Supervisor: starts the processes of a cluster on this machine, and restarts those that end, until asked to stop.

With `service` there is one process, on a Kafka of its own: `holdfast serve`, the parent in a container.
All of its processes die with it.
"""

from __future__ import annotations

import errno
import math
import os
import queue
import shutil
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from holdfast.schemas.topics import ClusterTopics
from holdfast.services.hosting.settings import new_incarnation
from holdfast.services.log.door import expect_secret, open_log
from holdfast.services.log.protocol import Log
from holdfast.services.node.console_door import ConsoleDoor
from holdfast.services.node.kafka.brokers import Brokers, brokers_in
from holdfast.services.node.kafka.keeper import BrokerEnded, BrokerKeeper, BrokerReturned
from holdfast.services.node.lineup import Lineup
from holdfast.services.node.machine.cluster_files import Cluster, ClusterFiles, WorkerProcess
from holdfast.services.node.machine.disk import Disk, shortage
from holdfast.services.node.machine.fork_server import ForkServer
from holdfast.services.node.machine.messages import say
from holdfast.services.node.machine.processes import spawn
from holdfast.services.node.members.claim import Claim
from holdfast.services.node.members.exit_notices import ExitNotices
from holdfast.services.node.members.members import Member
from holdfast.services.node.members.naming import Naming, machine_name
from holdfast.services.node.members.notices import Notices
from holdfast.services.node.members.readiness import Readiness
from holdfast.services.node.members.service import Service
from holdfast.services.node.members.spark_drivers import SparkDrivers
from holdfast.services.node.members.start_limit import StartLimit
from holdfast.services.node.settings import Settings
from holdfast.services.node.start import Start, Stopped, create_topics, unwritten

READY_S = 180.0
"""A process that crashes at start-up fails the start at once; a slow one, on a busy machine, gets the full time-out,
and gets it again while it loads."""
TICK_S = 0.25
LOGS_S = 5.0
PUBLISH_AGAIN_S = 1.0
YIELD_S = 0.3
"""A worker that ended stays down so long where there are others: a start takes a core, which the copies that take over
from it need more."""

LOADED = {
    Service.WORKER: ("holdfast.services.worker.process.main",),
    None: (
        "holdfast.services.worker.process.main",
        "holdfast.services.controller.__main__",
        "holdfast.services.recovery.__main__",
    ),
}
"""Modules that the fork server of a service loads."""


@dataclass(frozen=True, slots=True)
class _MemberEnded:
    """A run of a member has ended."""

    member: Member


class Supervisor:
    """Supervisor of one cluster in one data directory, or of its part on this machine.

    Its methods are for one thread, except `ask_to_stop`.

    Args:
        service: the only service that runs here, on a Kafka of the settings, with the supervisor's log; None: all
            services.
    """

    lineup = Lineup

    def __init__(
        self,
        settings: Settings,
        workers: int,
        changed: Callable[[], None] = lambda: None,
        service: Service | None = None,
    ) -> None:
        self._service = service
        if service is not None:
            workers = int(service is Service.WORKER)
            settings = settings.model_copy(update={"recoveries": int(service is Service.RECOVERY)})
        self.settings = settings
        self.files = ClusterFiles(settings.home)
        self.brokers = None if settings.kafka else self._embedded()
        self.topics = ClusterTopics(settings.cluster)
        self.state = "starting"
        self.naming = Naming((settings.host or machine_name()) if settings.kafka else "", settings.zone)
        self._machine = settings.host or machine_name()
        self._exits = ExitNotices()
        home = {"HOLDFAST_HOME": str(self.files.data_dir)}
        self._forks = ForkServer(LOADED[service], home) if workers and settings.fork_server else None
        self._lineup = self.lineup(
            settings,
            self.naming,
            self.files,
            served=service is not None,
            shared=self._shared,
            ended=self._ended,
            launch=spawn if self._forks is None else self._forks.start,
        )
        self.controllers = [self._lineup.controller()] if service in (None, Service.CONTROLLER) else []
        self.recoveries = [self._lineup.recovery(number) for number in range(1, settings.recoveries + 1)]
        self.workers = [self._lineup.worker(number) for number in range(1, workers + 1)]
        for worker in self.workers:
            worker.rest_s, worker.dying = YIELD_S if workers > 1 or service else 0.0, self._exits.dying
        self._drivers = SparkDrivers(self._lineup.driver, self._publish, most=1 if service else None)
        self._changed = changed
        self._queue: queue.SimpleQueue[_MemberEnded | BrokerEnded | BrokerReturned | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._servers = settings.kafka or ""
        self._log: Log | None = None
        self._notices: Notices | None = None
        self._keeper: BrokerKeeper | None = None
        self._started_ms = int(time.time() * 1000)
        self._identity = ""
        self._claim: Claim | None = None
        self.disk = Disk(self.files.data_dir, self._report)
        self._unpublished_s = math.inf
        self._console: ConsoleDoor | None = None
        if service is None and settings.console and ConsoleDoor.available():
            log, limits = self.files.logs / "console.log", settings.log_limits
            self._console = ConsoleDoor(self.files.data_dir, settings.console_port, log, limits)

    # -- what a person does -------------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """May be called from a signal handler."""
        self._stopping.set()
        self._queue.put(None)

    def asked_to_stop(self, timeout_s: float) -> bool:
        """Waits up to timeout_s for a request to stop; true if there is one."""
        return self._stopping.wait(timeout_s)

    def start(self, timeout_s: float = READY_S) -> None:
        """Returns when jobs can be submitted.

        Raises:
            Stopped: asked to stop meanwhile. One of EXPECTED: it cannot start; nothing is left running.
        """
        try:
            self.files.take()
            self._require_room()
        except OSError as error:
            raise unwritten(error, self.files.data_dir) from error
        try:
            self._start(timeout_s)
        except OSError as error:
            self.stop()
            raise unwritten(error, self.files.data_dir) from error
        except BaseException:
            self.stop()
            raise

    def _require_room(self) -> None:
        """Raises OSError, which names the folder, if the disk is too full for a broker, which would fail at its first
        segments.
        """
        if self.brokers is not None and shortage(self.files.data_dir):
            self.files.release()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.files.data_dir))

    def run(self) -> None:
        """Keeps all running until asked to stop."""
        looked_at_logs = time.monotonic()
        while not self._stopping.is_set():
            self._turn(TICK_S)
            if time.monotonic() - looked_at_logs > LOGS_S:
                looked_at_logs = time.monotonic()
                self.disk.look()
                if self._keeper is not None:
                    self._keeper.end_deaf()
                for member in self.members:
                    self.disk.tries(f"the log of {member.name}", member.bound_log)
                self.disk.tries("the supervisor's log", self._bound_own_log)

    def _bound_own_log(self) -> None:
        self.settings.log_limits.bound(self.files.logs / "supervisor.log")

    def stop(self) -> None:
        """Workers first, the broker last."""
        self._stopping.set()
        self.state = "stopping"
        self._changed()
        if self._console is not None:
            self._console.close()
        for group in ([*self._drivers.members, *self.workers], [*self.recoveries, *self.controllers]):
            for member in group:
                member.ask_to_stop()
            for member in group:
                member.stop()
        if self._forks is not None:
            self._forks.close()
        self._drivers.close()
        if self._notices is not None:
            if self._claim is not None:
                self._claim.give_back(self._notices)
            self._notices.close()
        if self._log is not None:
            self._log.close()
        if self.brokers is not None:
            self.brokers.stop()
        self.disk.tries("the cluster's files", self.files.forget)
        self.files.release()

    @property
    def members(self) -> list[Member]:
        return [*self.controllers, *self.recoveries, *self.hosts]

    @property
    def hosts(self) -> list[Member]:
        """Members that host units."""
        return [*self.workers, *self._drivers.members]

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
            controller_pid=next((one.pid for one in self.controllers), None),
            recovery_pids=tuple(one.pid for one in self.recoveries if one.pid is not None),
            started_ms=self._started_ms,
            plugins=self.settings.plugins,
            host=self.naming.host,
            secret_file=self._secret_file,
            metrics=self._lineup.metrics.where,
            console="" if self._console is None else self._console.url,
        )

    @property
    def _shares_names(self) -> bool:
        """True if other supervisors on this Kafka could use the names of the workers or Spark drivers here."""
        return bool(self.settings.kafka) and self._service in (None, Service.WORKER, Service.SPARK)

    @property
    def address(self) -> str:
        """Machine and directory of its processes, whatever the host's name."""
        return f"{socket.gethostname()}:{self.files.data_dir}#{self._identity}"

    @property
    def _secret_file(self) -> str:
        file = self.settings.cluster_secret_file
        return str(file.absolute()) if file else ""

    # -- starting -----------------------------------------------------------------------------------------------------

    def _start(self, timeout_s: float) -> None:
        limit = StartLimit(time.monotonic(), timeout_s)
        former = {worker.worker: worker.incarnation for worker in self.files.workers()}
        self._identity = self.files.identity()
        self.files.forget()
        shutil.rmtree(self._lineup.state_dir, ignore_errors=True)
        if self._forks is not None:
            self._forks.provide()  # it loads beside the brokers
        if self.brokers is not None:
            self._start_brokers(self.brokers)
        log = self._log = open_log(self._servers, self.settings.cluster, "supervisor")
        create_topics(log, self.topics, self.settings)
        expect_secret(log, self.topics)
        claim = Claim(self.naming, self.topics, self.address)
        known = claim.newest(log, self.settings.heartbeat_interval_ms) if self._shares_names else {}
        self._notices = Notices(log, self.topics)
        if self.settings.exit_notices:
            self._exits.send_by(self._notices)
        self._notices.warm_up({**{worker.name: "0" for worker in self.workers}, **former})
        if self._shares_names:
            self._claim = claim
            claim.take(log, self._notices)
        for worker in self.workers:
            worker.run = max(former.get(worker.name, ""), known.get(worker.name, ""))
        probe = new_incarnation() if self.controllers else ""
        readiness = Readiness(log, self.topics, probe, claim.neighbours())
        try:
            self._await(readiness, claim, limit)
        finally:
            readiness.close()
        if self._service in (None, Service.SPARK):
            from holdfast.services.node.members.spark_demand import (
                SparkDemand,  # loads much, which other services do without
            )

            self._drivers.follow(SparkDemand(log, self.topics))
        if self._console is not None:
            try:
                self._console.open()
            except OSError as error:
                say(f"the console is not served: {error.strerror or error}")
        self.state = "ready"
        self._publish()

    def _await(self, readiness: Readiness, claim: Claim, limit: StartLimit) -> None:
        """Starts the members and waits for a sign of each."""
        while self._forks is not None and self._forks.loads(0.05):  # to load by itself takes each member a second
            if self._stopping.is_set():
                raise Stopped
            if limit.over(time.monotonic(), {"fork server": self._forks.processor_s}):
                break
        self._turn(0)
        names, shared = {worker.name for worker in self.workers}, claim if self.settings.kafka else None
        start = Start(readiness, names, limit, claim=shared, logs=self.files.logs)
        start.wait(lambda: self.members, self._turn_of_start)

    def _turn_of_start(self) -> None:
        if self._stopping.is_set():
            raise Stopped
        self._turn(0)

    def _embedded(self) -> Brokers:
        return brokers_in(self.files.data_dir / "kafka", self.settings.brokers, self.settings.kafka_port)

    def _start_brokers(self, brokers: Brokers) -> None:
        self._keeper = BrokerKeeper(brokers, self.disk, self._stopping, self._queue.put)
        self._keeper.start()
        self._servers = brokers.bootstrap_servers
        self._publish()

    # -- keeping it running -------------------------------------------------------------------------------------------

    def _turn(self, timeout_s: float) -> None:
        """Handles ended processes, starts those that are due, and waits for the next event."""
        self._drivers.provide()
        if self._forks is not None:
            self._forks.provide()
        for member in self.members:
            if member.due is not None and member.due <= time.monotonic() and not self._stopping.is_set():
                self._start_member(member)
                self._publish()
        if time.monotonic() > self._unpublished_s + PUBLISH_AGAIN_S:
            self._publish()
        due = [member.due for member in self.members if member.due is not None]
        wait = max(0.0, min([timeout_s, *(at - time.monotonic() for at in due)]))
        with suppress(queue.Empty):
            happened = self._queue.get(timeout=wait) if wait else self._queue.get_nowait()
            if happened is not None and not self._stopping.is_set():
                self._react(happened)

    @staticmethod
    def _start_member(member: Member) -> None:
        """Starts a member; a start that fails, for lack of memory or descriptors, is retried like the restart of an
        ended process.
        """
        try:
            member.start()
        except OSError as error:
            say(f"{member.name} cannot be started: {error}")

    def _react(self, happened: _MemberEnded | BrokerEnded | BrokerReturned) -> None:
        match happened:
            case _MemberEnded(member):
                member.settle()
            case BrokerEnded(broker, status) if self._keeper is not None:
                self._keeper.ended(broker, status)
            case BrokerReturned() if self._keeper is not None:
                self._broker_returned(happened, self._keeper)
        self._publish()

    def _broker_returned(self, happened: BrokerReturned, keeper: BrokerKeeper) -> None:
        """Reports the restart of a broker; if its port was taken meanwhile, every process is restarted."""
        keeper.returned(happened.broker)
        if self._notices is not None:
            which = keeper.which(happened.broker)
            self._notices.report("kafka-restarted", detail=f"it{which} had ended with status {happened.status}")
        former = self._servers
        if self.brokers is not None and (servers := self.brokers.bootstrap_servers) != former:
            self._servers = servers
            for member in self.members:
                member.ask_to_stop()

    def _ended(self, member: Member, run: str, status: int) -> None:
        """Handles the end of a process, in the thread that noticed it: the exit notice is sent first."""
        if member in self.hosts:
            self._exits.ended(member, run, status)
        self._queue.put(_MemberEnded(member))
        if not self._stopping.is_set():
            say(f"{member.name} ({run}) ended with status {status}")
        shutil.rmtree(self._lineup.state_dir / member.name / run, ignore_errors=True)

    def _publish(self) -> None:
        """Writes the state of the processes to the cluster's files; retries while the disk has no room."""
        written = self.disk.tries("the cluster's files", self._write_files)
        self._unpublished_s = math.inf if written else time.monotonic()
        self._changed()

    def _write_files(self) -> None:
        self.files.write_workers([self._process(member) for member in self.hosts])
        self.files.write_metrics(self._lineup.metrics.targets)
        self.files.write_cluster(self.cluster)

    def _report(self, kind: str, detail: str) -> None:
        say(f"{kind}: {detail}")
        if self._notices is not None:
            self._notices.report(kind, detail=detail)

    # -- members ------------------------------------------------------------------------------------------------------

    def _shared(self) -> dict[str, str]:
        """The part of the environment that all members have."""
        shared = {"HOLDFAST_KAFKA": self._servers, "HOLDFAST_CLUSTER": self.settings.cluster}
        if secret := self._secret_file:
            shared["HOLDFAST_CLUSTER_SECRET_FILE"] = secret
        where = {"HOLDFAST_HOST": self._machine, "HOLDFAST_ADDRESS": self.address}
        return {**shared, **where, "HOLDFAST_HOME": str(self.files.data_dir)}

    def zone_of(self, worker: Member) -> str:
        return self.naming.zone(int(worker.name.rpartition("-")[2]))

    def _process(self, worker: Member) -> WorkerProcess:
        return WorkerProcess(worker.name, worker.run, worker.pid, self.zone_of(worker), restarts=worker.restarts)
