"""A standalone Spark on this machine, from the jars of pyspark: a master and workers, whose executors can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.commands import until

HOST = "127.0.0.1"
MASTER, WORKER = (f"org.apache.spark.deploy.{name}" for name in ("master.Master", "worker.Worker"))
BRIEFLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class StandaloneSpark:
    """A running one. url: of its master."""

    def __init__(self, url: str, workers: list[subprocess.Popen[bytes]]) -> None:
        self.url, self._workers = url, workers

    def executors(self) -> list[int]:
        """Process ids."""
        parents = {one.pid for one in self._workers}
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                words, line = stat.read_text().rpartition(")")[2].split(), (stat.parent / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            if int(words[1]) in parents and b"CoarseGrainedExecutorBackend" in line:
                found.append(int(stat.parent.name))
        return sorted(found)

    def kill_executor(self) -> None:
        """SIGKILL; returns when another one has taken its place."""
        before = self.executors()
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(new := self.executors()) == len(before) and before[0] not in new, "a new executor runs")


@contextmanager
def standalone_spark(folder: Path, port: int, workers: int = 2) -> Iterator[StandaloneSpark]:
    """Each worker has one core and 512 MiB."""
    folder.mkdir(parents=True, exist_ok=True)
    url, started = f"spark://{HOST}:{port}", list[subprocess.Popen[bytes]]()
    try:
        started.append(_start(folder / "master", MASTER, "--host", HOST, "--port", str(port), "--webui-port", "0"))
        for number in range(workers):
            own = folder / f"worker-{number}"
            limits = ("--cores", "1", "--memory", "512m", "--work-dir", str(own / "work"))
            started.append(_start(own, WORKER, "--host", HOST, "--webui-port", "0", *limits, url))
        yield StandaloneSpark(url, started[1:])
    finally:
        for one in reversed(started):
            one.kill()
            one.wait()


def _start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    home = Path(pyspark.__file__).parent
    own = {
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_JAVA_OPTS": BRIEFLY,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": HOST,
    }
    command = [str(home / "bin" / "spark-class"), *words]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log, cwd=folder)
