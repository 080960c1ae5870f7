"""Real clusters for tests: what a client does with any of them, and those that are started by commands, as by a person.

Clusters whose workers die at chosen records are in doomed_cluster.py; jobs with load and a check in running_job.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from confluent_kafka.cimpl import NewPartitions

from holdfast.schemas import commands, events, plans, progress
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event
from holdfast.schemas.plans import Decision, Ended, Plan, Rejection
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import ClusterTopics, JobTopics, Partition
from holdfast.services.log.door import open_log
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.protocol import Appender, Headers, Log
from holdfast.services.node.machine.cluster_files import ClusterFiles, WorkerProcess
from holdfast.services.node.machine.processes import tail
from holdfast.services.worker.core.trim_limit import later
from tests.support.commands import APART, DEADLINE_S, HOLDFAST, answered, run, until

LOG_LINES = 30
"""Lines of each process's log that are shown for a test that failed."""
NEEDS_ENVIRONMENT = {*APART, "submit"}
"""Commands."""
_D = TypeVar("_D", Plan, Ended, Rejection)
_L = TypeVar("_L", bound="LocalCluster")


class Cluster:
    """A cluster that runs, as a client sees it and asks it once it is connected.

    Args:
        deadline_s: for what must come; only a test that fails waits for so long.
    """

    log: Log
    appender: Appender

    def __init__(self, topics: ClusterTopics, deadline_s: float = DEADLINE_S) -> None:
        self.topics, self.deadline_s = topics, deadline_s

    def connect(self, bootstrap_servers: str) -> None:
        self.log = open_log(bootstrap_servers, self.topics.prefix, "test")
        self.appender = self.log.appender("test")

    def close(self) -> None:
        """Closes the client; the cluster continues."""
        self.appender.close()
        self.log.close()

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        return until(condition, what, self.deadline_s)

    # -- topics -------------------------------------------------------------------------------------------------------

    def append(
        self,
        topic: str,
        *values: bytes | None,
        partition: int = 0,
        key: bytes | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Returns when all are acknowledged."""
        for value in values:
            self.appender.append(Partition(topic, partition), value, key=key, headers=headers)
        self.appender.flush(self.deadline_s)

    def feed(self, topic: str, records: Iterable[object], partitions: int = 2) -> None:
        """Appends records as JSON, one partition after the other; returns when all are acknowledged."""
        for index, record in enumerate(records):
            self.appender.append(Partition(topic, index % partitions), msgspec.json.encode(record))
        self.appender.flush(self.deadline_s)

    def values(self, topic: str) -> list[bytes]:
        """Values of partition 0."""
        return answered(lambda: [message.value() or b"" for message in self.log.scan(Partition(topic, 0))])

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """Rows of a topic of JSON records."""
        return [json.loads(value) for value in self.values(topic)]

    def end(self, topic: str) -> int:
        """Sum of the ends of its partitions: each record counts, and each end of a transaction."""

        def ends() -> int:
            partitions = [Partition(topic, index) for index in range(self.log.topics().get(topic, 0))]
            return sum(self.log.offsets(partitions, "end").values())

        return answered(ends)

    def await_more(self, topic: str, before: int) -> None:
        """before: an `end` of it."""
        self.until(lambda: self.end(topic) > before, f"more records in {topic}")

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def submit(self, record: bytes) -> None:
        """A job, or a command, as a record."""
        self.append(self.topics.submit, record)

    def drain(self, job: str) -> None:
        """Returns when it has ended."""
        self.submit(commands.encode(Command("drain", job)))
        self.until(lambda: self.decided(job, Ended), f"{job} ends")

    def decisions(self) -> list[Decision]:
        records = [plans.decode_any(value) for value in self.values(self.topics.plans)]
        return [one for one in records if isinstance(one, Plan | Rejection | Ended)]

    def decided(self, job: str, kind: type[_D]) -> _D | None:
        """The first decision of a kind on a job of that name; None before it is made."""
        return next((one for one in self.decisions() if isinstance(one, kind) and one.job == job), None)

    def plan(self, job: str) -> Plan:
        found = self.decided(job, Plan)
        assert found is not None, f"{job} was not admitted"
        return found

    def topics_of(self, job: str) -> JobTopics:
        return self.topics.job(job, self.plan(job).generation)

    def state(self, job: str) -> str:
        """Last published state; empty before the first."""
        found = [plans.decode_status(value) for value in self.values(self.topics.status)]
        return next((one.state for one in reversed(found) if one.job == job), "")

    def await_state(self, job: str, state: str) -> None:
        def reached() -> bool:
            found = self.state(job)
            assert found == state or found not in ("rejected", "failed"), f"{job} is {found}"
            return found == state

        self.until(reached, f"{job} is {state}")

    def await_taken_in(self, job: str, records: int) -> None:
        """Until it has counted so many records of its sources."""
        topic = self.topics_of(job).progress

        def taken_in() -> int:
            known: dict[str, Progress] = {}
            for one in map(progress.decode, self.values(topic)):
                known[one.unit] = later(known[one.unit], one) if one.unit in known else one
            return sum(one.records for one in known.values())

        self.until(lambda: taken_in() == records, f"{job} has taken in {records} records")

    def letters_of(self, job: str) -> Partition:
        return Partition(self.topics_of(job).dead_letters, 0)

    def events(self, *kinds: str) -> list[Event]:
        """Events of these kinds; none: of all."""
        found = map(events.decode, self.values(self.topics.events))
        return [event for event in found if not kinds or event.kind in kinds]


class LocalCluster(Cluster):
    """A cluster in a folder, by the commands that a person types. Nothing runs before `up`, which connects, too.

    Args:
        environment: of every command that starts processes or imports the user's code, over ours.
    """

    def __init__(
        self, folder: Path, environment: Mapping[str, str] | None = None, deadline_s: float = DEADLINE_S
    ) -> None:
        super().__init__(ClusterTopics(), deadline_s)
        self.folder, self.files = folder, ClusterFiles(folder)
        self._environment = environment or {}
        self._connected = False

    def up(self, workers: int = 1) -> None:
        self.call("up", "--detach", "--workers", str(workers))
        cluster = self.files.cluster()
        assert cluster is not None
        self.connect(cluster.bootstrap_servers)
        self._connected = True

    def down(self) -> None:
        """Also where it is down, and after an `up` that failed."""
        if self._connected:
            self.close()
            self._connected = False
        command = [str(HOLDFAST), "down", "--data-dir", str(self.folder)]
        subprocess.run(command, check=False, capture_output=True)

    # -- commands -----------------------------------------------------------------------------------------------------

    def call(self, *words: str, status: int = 0) -> str:
        """Output of a command."""
        return self._run(words, status)[0]

    def _run(self, words: tuple[str, ...], status: int) -> tuple[str, str]:
        """A command with an environment has a process of its own, which one that only asks Kafka can do without."""
        environment = self._environment if words[0] in NEEDS_ENVIRONMENT else None
        return run(self.folder, *words, status=status, environment=environment)

    def asked(self, *words: str) -> Any:
        """Output of a command that changes nothing, as one JSON value; asked again where Kafka is too busy."""
        return json.loads(answered(lambda: self.call(*words, "--json")))

    def told(self, *words: str, status: int = 0) -> str:
        """Output of a command, and its messages beside that."""
        return "".join(self._run(words, status))

    def lines(self, *words: str) -> list[dict[str, Any]]:
        """Output of a command in JSON lines; a text may hold what str.splitlines takes for the end of one."""
        return [json.loads(line) for line in self.told(*words).split("\n") if line.startswith("{")]

    def results(self, job: str, count: int) -> list[dict[str, Any]]:
        """All rows of its query `all` by `holdfast results`, once there are so many."""

        def enough() -> list[dict[str, Any]] | None:
            found = self.lines("results", job, "all")
            return found if len(found) >= count else None

        sink = next(one.params for one in self.plan(job).operators if one.kind == "sink")
        records = 1 if sink.get("format") == "arrow" else count  # an Arrow record holds many rows
        self.until(lambda: self.end(sink["topic"]) >= records, f"{count} rows of {job}")  # a command takes a second
        found: list[dict[str, Any]] = self.until(enough, f"{count} rows of {job}")
        return found

    # -- processes ----------------------------------------------------------------------------------------------------

    def workers(self) -> dict[str, WorkerProcess]:
        """Workers and drivers, by name."""
        return {one.worker: one for one in self.files.workers()}

    def signal(self, name: str, number: signal.Signals) -> WorkerProcess:
        """Sends it to a worker, or to a driver and its JVM; returns which process it was."""
        self.until(lambda: name in self.workers() and self.workers()[name].pid, f"{name} runs")
        victim = self.workers()[name]
        assert victim.pid is not None
        os.killpg(victim.pid, number)
        return victim

    def kill(self, name: str) -> None:
        """SIGKILL; returns when it has a new incarnation."""
        victim = self.signal(name, signal.SIGKILL)
        self.until(lambda: self.workers()[name].incarnation != victim.incarnation, f"{name} comes back")

    def kafka(self) -> int:
        """Its process; waits while it is being started."""

        def found() -> int | None:
            cluster = self.files.cluster()
            return None if cluster is None else cluster.kafka_pid

        return int(self.until(found, "Kafka runs"))

    def processes(self) -> set[int]:
        """Every process that names this folder in its command line or its environment."""
        return {
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and int(entry.name) != os.getpid() and self._names_us(entry)
        }

    def _names_us(self, process: Path) -> bool:
        try:
            return str(self.folder).encode() in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            return False

    def logs(self) -> str:
        return logs_in(self.files.logs)


@contextmanager
def running(cluster: _L, workers: int = 1) -> Iterator[_L]:
    """Down at the end, however that comes; fails if a process is left."""
    try:
        cluster.up(workers)
        yield cluster
    finally:
        cluster.down()
    until(lambda: not cluster.processes(), "no process is left")


def grow(log: Log, topic: str, partitions: int) -> None:
    """Gives a topic more partitions; returns when they have leaders."""
    assert isinstance(log, KafkaLog)
    (done,) = log._requests.admin.create_partitions([NewPartitions(topic, partitions)]).values()
    done.result(DEADLINE_S)
    until(lambda: log.describe([topic])[topic].partitions == partitions, "the new partitions are there")
    log.offsets([Partition(topic, index) for index in range(partitions)], "end")


def logs_in(folder: Path) -> str:
    """The last lines of each process's log, for a test that failed."""
    return "\n".join(_tails(sorted(folder.glob("*.log"))))


def _tails(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        yield f"-- {file.name}\n{tail(file, LOG_LINES)}"
