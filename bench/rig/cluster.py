"""A cluster to be measured, in a data directory of its own, with the actions of a client."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import Template
from types import MappingProxyType

from bench.rig import jobs
from bench.rig.followed import DEADLINE_S, Followed, MeasureFailed
from bench.rig.machine import cpu_s
from holdfast.schemas import commands
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.log.door import open_log
from holdfast.services.log.kafka.appender import KafkaAppender
from holdfast.services.log.kafka.client import Cluster
from holdfast.services.log.kafka.reader import KafkaReader
from holdfast.services.log.protocol import Log
from holdfast.services.node.machine.cluster_files import ClusterFiles
from holdfast.services.planning.loader import load
from holdfast.services.view.door import Door, Whereabouts

HOLDFAST = str(Path(sys.executable).parent / "holdfast")
POLL_EVERY = 10_000
LINGER_MS = 1
"""Time that a record of an application that feeds a job waits for others; Kafka's clients do for 5 by default."""
WAIT_MS, LEAST_BYTES = 200, 64 * 1024
"""Bytes of a job's published records for which a request waits at the broker, at most WAIT_MS: an answer to each record
would add to the measured cost.
"""
TimeOf = Callable[[int], int]
"""Event time in milliseconds of the record with this index."""


class BenchCluster:
    """A cluster, not started until `start`.

    say: shows the current step to a person.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say
        self.files = ClusterFiles(folder)
        self.topics = ClusterTopics()
        self._log: Log | None = None

    def start(self, workers: int, variables: Mapping[str, str] = MappingProxyType({})) -> None:
        """Starts the cluster. Raises MeasureFailed.

        variables: variables of its environment, which replace the defaults.
        """
        run_command("up", "--detach", "--workers", str(workers), "--data-dir", str(self.folder), variables=variables)
        cluster = self.files.cluster()
        assert cluster is not None
        self.bootstrap_servers = cluster.bootstrap_servers
        self._log = open_log(self.bootstrap_servers, self.topics.prefix, "bench")
        self.appender = self._log.appender("bench")

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()
        run_command("down", "--data-dir", str(self.folder))

    @property
    def log(self) -> Log:
        assert self._log is not None
        return self._log

    def users_appender(self, name: str) -> KafkaAppender:
        """Appender like that of an application that feeds a job: it gathers records for a moment, as Kafka's own
        clients do.

        Measured: with a request for each of 1,000 records a second it takes a third of a core, and a quarter at Kafka.
        """
        return KafkaAppender(Cluster(self.bootstrap_servers), f"bench-{name}", LINGER_MS)

    def door(self) -> Door:
        """The present cluster, as commands reach it."""
        where = Whereabouts(self.folder, "", self.topics.prefix, True)
        return Door(self.log, self.topics, self.log.topics(), where)

    # -- processes ----------------------------------------------------------------------------------------------------

    def supervisor(self) -> int | None:
        return self.files.supervisor()

    def workers(self) -> dict[str, int]:
        """Process number by name."""
        return {one.worker: one.pid for one in self.files.workers() if one.pid is not None}

    def cpu_s(self) -> float:
        """CPU seconds of all workers so far."""
        return sum(cpu_s(pid) for pid in self.workers().values())

    # -- topics -------------------------------------------------------------------------------------------------------

    def create(self, *topics: str, partitions: int = 1) -> None:
        """Topics to read, whose records bear the broker's time, each with a `<topic>-out` to write."""
        read = [TopicSpec(topic, partitions, {"message.timestamp.type": "LogAppendTime"}) for topic in topics]
        self.log.create([*read, *(TopicSpec(f"{topic}-out", partitions) for topic in topics)])

    def preload(
        self, topic: str, records: int, keys: int, time_ms: TimeOf, partitions: int = 1, *, keyed: bool = False
    ) -> None:
        """Appends records; record i goes to partition i mod their number.

        keyed: true to use the user as the record's key on Kafka.
        """
        homes = [Partition(topic, index) for index in range(partitions)]
        for index in range(records):
            key = jobs.key(index, keys) if keyed else None
            self.appender.append(homes[index % partitions], jobs.record(index, keys, time_ms(index)), key=key)
            if index % POLL_EVERY == 0:
                self.appender.poll()
        self.appender.flush(DEADLINE_S)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def running(self, job: Template, topic: str, **settings: object) -> Iterator[Followed]:
        """The job from the moment it is admitted to its cancelling. Raises MeasureFailed."""
        followed = self.submit(job, topic, **settings)
        try:
            yield followed
            self.cancel(followed)
        finally:
            followed.close()

    def submit(self, job: Template, topic: str, **settings: object) -> Followed:
        """Submits a job; returns it once it is admitted. Raises Refused, or MeasureFailed."""
        text = job.substitute({"tasks": 1, "name": topic} | settings, topic=topic)
        spec = load(jobs.unprotected(text), "bench.yaml")
        reader = KafkaReader(Cluster(self.bootstrap_servers), "bench-job", WAIT_MS, LEAST_BYTES)
        followed = Followed(self.log, reader, self.topics, spec.name)
        self._command(commands.encode(spec.as_plain()))
        try:
            followed.await_admission()
        except MeasureFailed:
            followed.close()
            raise
        return followed

    def cancel(self, job: Followed) -> None:
        self._command(commands.encode(commands.Command("cancel", job.plan.job)))
        job.await_end()

    def _command(self, record: bytes) -> None:
        self.appender.append(Partition(self.topics.submit, 0), record)
        self.appender.flush(DEADLINE_S)


@contextmanager
def folder_of_its_own(say: Callable[[str], None]) -> Iterator[BenchCluster]:
    """A cluster that is stopped, with its data deleted, at the end of the context in any case."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    cluster = BenchCluster(folder, say)
    try:
        yield cluster
    finally:
        former = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave it half down
        try:
            cluster.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            signal.signal(signal.SIGINT, former)


def run_command(*words: str, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    """Output of `holdfast`, in a process group of its own: Ctrl-C is ours to handle. Raises MeasureFailed."""
    process = subprocess.Popen(
        [HOLDFAST, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **variables},
    )
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.communicate()
        raise
    if process.returncode != 0:
        raise MeasureFailed(f"holdfast {words[0]} failed: {err.strip() or out.strip()}")
    return out


def now_ms() -> float:
    return time.time() * 1000
