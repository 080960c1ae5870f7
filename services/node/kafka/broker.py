"""Broker: one KRaft node of an embedded Kafka, which ends with the process that started it.

Usually it is the only node; services/node/kafka/brokers.py starts several that replicate each other.

`python -m holdfast.services.node.kafka.broker` starts one for a moment to record the classes that it loads (see
`train`).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import string
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from holdfast.services.node.kafka import fence, node_identity
from holdfast.services.node.machine import ports
from holdfast.services.node.machine.artifacts import INFRA, ArtifactSet, ArtifactsMissing, require
from holdfast.services.node.machine.disk import put
from holdfast.services.node.machine.java import Java, JavaMissing, find_java
from holdfast.services.node.machine.processes import Child, tail

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 15.0
FORMER_TIMEOUT_S = 10.0
LOCK = "HOLDS_LOCK"
"""Variable with the descriptor of the data directory's lock, which a broker holds until its end."""
ATTEMPTS = 5

REPLICAS = 3
"""Replicas of each topic, if there are so many nodes; all but one must have a record before it counts."""

ALONE_SESSION_MS, ALONE_HEARTBEAT_MS = 60_000, 400
"""Nobody could take over from a broker that is alone: one that was only starved must find itself leading still. After
a crash services/node/kafka/fence.py ends its session at once."""

SESSION_MS, HEARTBEAT_MS = 1_000, 200
"""Milliseconds; Kafka's default is 9 s, for which the partitions of a killed broker have no leader."""

# Measured on two cores, from start to first answer: 1.9 s, with the class-data archive 1.0 s. Stopping at C1 as well
# makes it 0.8 s; once warm the median acknowledgement then takes 1.1 instead of 0.8 ms, but C2 is busy with a core of
# two for the first minute (`bench latency` then: p50 170 ms instead of 45), and with a lower priority it holds up the
# whole broker on a full machine (docs/decisions/0228). G1 starts no faster and needs a fifth more
# CPU.
JVM_FLAGS = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dlog4j2.configurationFile=log4j2.properties",
)


class BrokerFailed(RuntimeError):
    """The broker does not run; the message names the failed step and ends with the last lines of its log."""


class BrokerRunning(RuntimeError):
    """Another broker already runs on the same data."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """The nodes of one embedded Kafka, as each node's settings list them.

    ports: port of the clients' listener, by node id; the controller's is the next one.
    cluster: their common identity.
    """

    ports: Mapping[int, int]
    cluster: str

    @property
    def voters(self) -> str:
        return ",".join(f"{node}@127.0.0.1:{port + 1}" for node, port in sorted(self.ports.items()))


class EmbeddedKafka:
    """A broker with data, configuration and logs in `data_dir`; it keeps its port across restarts.

    port: port for clients, on loopback; the controller uses the next one. 0: any free pair, and another pair if the
        former one was taken meanwhile.
    node: its id.
    quorum: the nodes of its quorum, whose ports are fixed while any of them runs; None: it is alone.
    """

    def __init__(self, data_dir: Path, port: int = 0, node: int = 1) -> None:
        self.data_dir = data_dir.absolute()
        self.node = node
        self.quorum: Quorum | None = None
        self._wanted_port = port
        self._child: Child | None = None
        self._answered = False

    @property
    def port(self) -> int:
        """The port for clients. Raises BrokerFailed before the first start."""
        if not self._port_file.exists():
            raise BrokerFailed(f"the broker of {self.data_dir} was never started")
        return int(self._port_file.read_text())

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def child(self) -> Child:
        """The broker's process. Raises BrokerFailed if this object did not start it."""
        if self._child is None:
            raise BrokerFailed(f"the broker of {self.data_dir} was not started")
        return self._child

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def deaf(self) -> bool:
        """True if its process runs and has answered before, but its port is closed. A stopped process keeps its port
        open.
        """
        return self._answered and self.running and not ports.is_open(self.port)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Returns when the broker answers.

        Raises BrokerRunning, BrokerFailed, ArtifactsMissing or JavaMissing.
        """
        java, artifacts = find_java(), require("kafka")
        archive = _archive(java, artifacts)
        flags = (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()
        self._start(_command(java, artifacts, *flags), artifacts.directory, timeout_s)

    def prepare_port(self) -> int:
        """Chooses the port for the next start, so that other nodes can learn it. Raises BrokerFailed."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        port = self._choose_port()
        put(self._port_file, f"{port}\n")
        return port

    def crashed(self) -> bool:
        """True if it has run, and has not shut down cleanly."""
        return fence.crashed(self.data_dir / "data")

    @property
    def identity(self) -> str:
        """The id of the Kafka in this directory; empty before the first start."""
        return self._formatted.read_text().strip() if self._formatted.exists() else ""

    @contextmanager
    def lone_controller(self) -> Iterator[fence.Controller]:
        """The node without its broker, until the end of the block."""
        java, artifacts = find_java(), require("kafka")
        lock = self._lock()
        try:
            self._fill(self._choose_port(), *fence.SETTINGS)
            log = self._log.with_name("fence.out")
            with fence.lone_controller(_command(java, artifacts), self.data_dir, log, {LOCK: (lock,)}) as controller:
                yield controller
        finally:
            os.close(lock)

    def stop(self) -> None:
        """Ask it to end, and kill it if it does not; nothing happens if it does not run."""
        if self._child is not None:
            self._child.stop(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End it without warning, as a crash does."""
        self.child.kill()
        self.child.wait()

    def train(self) -> Path:
        """Start and stop once, recording which classes it loads, so that later starts take half the time.

        Returns the class-data archive, which serves every broker of this Java and these jars.
        """
        java, artifacts = find_java(), require("kafka")
        recorded = self.data_dir / "classes.jsa"
        self._start(
            _command(java, artifacts), artifacts.directory, START_TIMEOUT_S, f"-XX:ArchiveClassesAtExit={recorded}"
        )
        self.child.stop(START_TIMEOUT_S)  # Java writes the archive when it ends, which takes seconds of a processor
        if not recorded.exists():
            raise BrokerFailed(f"Java wrote no class-data archive:\n{self._log_tail()}")
        archive = _archive(java, artifacts)
        beside = archive.with_name(f".{archive.name}-{os.getpid()}")
        shutil.copyfile(recorded, beside)
        beside.rename(archive)
        return archive

    def _start(self, command: list[str], jars: Path, timeout_s: float, *flags: str) -> None:
        if self.running:
            raise BrokerRunning(f"the broker of {self.data_dir} runs already")
        deadline = time.monotonic() + timeout_s
        self._fence_former(deadline)
        lock = self._lock()
        try:
            self._format(command, jars)
            for _ in range(ATTEMPTS):
                self._configure(self._choose_port())
                self._answered = False
                self._child = Child(
                    [*command, *flags, "kafka.Kafka", "server.properties"],
                    log=self._output,
                    directory=self.data_dir,
                    descriptors={LOCK: (lock,)},
                )
                self._answered = self._answers(deadline)
                if self._answered:
                    return
                # Another process can take the port between this choice and the broker's start.
                if self._fixed_port or "Address already in use" not in self._log_tail():
                    break
        finally:
            os.close(lock)  # the broker inherited the lock: it is released when the broker ends, in any way
        raise BrokerFailed(f"Kafka in {self.data_dir} ended while it started:\n{self._log_tail()}")

    def _lock(self) -> int:
        """Take the data directory; a former broker that is just ending is waited for."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + FORMER_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError:
                time.sleep(0.02)
        os.close(lock)
        raise BrokerRunning(f"another process runs a broker on {self.data_dir}")

    def _format(self, command: list[str], jars: Path) -> None:
        """Write the cluster's identity and feature levels, once."""
        if self._formatted.exists():
            return
        shutil.rmtree(data := self.data_dir / "data", ignore_errors=True)  # a first start that was cut short left them
        cluster = node_identity.new_id() if self.quorum is None else self.quorum.cluster
        if not node_identity.write(data, self.node, cluster, jars):
            self._format_by_tool(command, cluster)
            node_identity.keep(data, jars)
        put(self._formatted, f"{cluster}\n")

    def _format_by_tool(self, command: list[str], cluster: str) -> None:
        self._configure(self._choose_port())
        storage_tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", "server.properties"]
        log = self._log.with_name("format.out")
        if Child([*command, *storage_tool], log=log, directory=self.data_dir).wait(START_TIMEOUT_S) != 0:
            raise BrokerFailed(f"Kafka could not format {self.data_dir}:\n{tail(log)}")

    def _fence_former(self, deadline: float) -> None:
        """Fences a former broker that did not end by itself; where there are several, the others have taken over from
        it.
        """
        if self.quorum is not None or not self.crashed():
            return
        try:
            with self.lone_controller() as controller:
                fence.await_fenced([controller], deadline)
        except fence.NotFenced as error:
            raise BrokerFailed(str(error)) from None

    def _configure(self, port: int) -> None:
        """Write the configuration, a new one for each start, and rename the former log."""
        self._fill(port, "server.properties", "log4j2.properties")
        put(self._port_file, f"{port}\n")
        if self._log.exists():
            self._log.replace(self._log.with_name("broker.log.1"))

    def _fill(self, port: int, *names: str) -> None:
        for name in names:
            template = string.Template((INFRA / "kafka" / name).read_text())
            put(self.data_dir / name, template.safe_substitute(self._values(port)))

    def _values(self, port: int) -> Mapping[str, object]:
        quorum = self.quorum or Quorum({self.node: port}, "")
        nodes = len(quorum.ports)
        return {
            "node": self.node,
            "port": port,
            "controller_port": port + 1,
            "voters": quorum.voters,
            "replicas": min(nodes, REPLICAS),
            "min_insync": max(1, min(nodes, REPLICAS) - 1),
            "session_ms": ALONE_SESSION_MS if nodes == 1 else SESSION_MS,
            "heartbeat_ms": ALONE_HEARTBEAT_MS if nodes == 1 else HEARTBEAT_MS,
        }

    @property
    def _fixed_port(self) -> int:
        """The port it must have, 0 for any."""
        return self._wanted_port if self.quorum is None else self.quorum.ports[self.node]

    def _choose_port(self) -> int:
        if fixed := self._fixed_port:
            taken = [f"port {port}" for port in (fixed, fixed + 1) if not ports.is_free(port)]
            if not taken:
                return fixed
            said = f"{' and '.join(taken)} {'is' if len(taken) == 1 else 'are'} in use"
            raise BrokerFailed(
                f"{said}, and Kafka takes {fixed} and {fixed + 1}: end the process that listens there, or give another "
                "port: --port, or HOLDFAST_KAFKA_PORT (0: any that is free)"
            )
        if self._port_file.exists() and ports.is_free(self.port) and ports.is_free(self.port + 1):
            return self.port
        return ports.choose_pair()

    def _answers(self, deadline: float) -> bool:
        """True once a client finds the broker in its own metadata, False if the broker ends before."""
        backoff = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0, **backoff})
        while self.running:
            try:
                if self.node in client.list_topics(timeout=0.1).brokers:
                    return True
            except KafkaException:
                pass  # the broker is not ready yet
            if time.monotonic() > deadline:
                self.stop()
                raise BrokerFailed(f"Kafka in {self.data_dir} did not answer in time:\n{self._log_tail()}")
        return False

    @property
    def _formatted(self) -> Path:
        return self.data_dir / "formatted"

    @property
    def _port_file(self) -> Path:
        return self.data_dir / "port"

    @property
    def _log(self) -> Path:
        return self.data_dir / "logs" / "broker.log"

    @property
    def _output(self) -> Path:
        """File of the JVM's output; the broker itself writes to its log."""
        return self.data_dir / "logs" / "broker.out"

    def _log_tail(self) -> str:
        return "\n".join(filter(None, (tail(self._output, 10), tail(self._log, 20))))


def _command(java: Java, artifacts: ArtifactSet, *flags: str) -> list[str]:
    return [java.path, *JVM_FLAGS, *flags, "-cp", artifacts.class_path]


def _archive(java: Java, artifacts: ArtifactSet) -> Path:
    """Java only takes an archive that it made itself from the same class path; another is ignored with a warning."""
    maker = hashlib.sha256(f"{java.path} {java.build} {JVM_FLAGS} {artifacts.class_path}".encode())
    return artifacts.directory / f"classes-{maker.hexdigest()[:12]}.jsa"


def main() -> int:
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
            archive = _archive(find_java(), require("kafka"))
            if not archive.exists():
                EmbeddedKafka(Path(scratch)).train()
    except (ArtifactsMissing, BrokerFailed, JavaMissing) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"class data in {archive}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
