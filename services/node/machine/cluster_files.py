"""Cluster files: the records of a data directory about the cluster that runs in it.

`supervisor.lock` is held by the supervisor and holds its process number, so a number read while the lock is held
belongs to a live supervisor. `cluster.json` and `workers.json` list its processes, `metrics.json` the addresses of its
metrics. Each is replaced in one step.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.log.seal.private import make_private
from holdfast.services.node.machine.metrics_ports import Target

_T = TypeVar("_T")

OURS = ("kafka", "logs", "spark", "state")
"""Directories in a data directory that `down --purge` removes."""
LOOKS = 20


class Cluster(msgspec.Struct, frozen=True):
    """The last cluster of a data directory.

    state: starting, ready or stopping.
    prefix: prefix of every topic.
    kafka_pids: processes of the running brokers; empty on a Kafka that the cluster did not start.
    kafka_pid: the first of them.
    plugins: modules that Python operators may come from, comma separated.
    host: prefix of its processes' names; empty beside an embedded Kafka.
    secret_file: file with the cluster's secret.
    metrics: address of each process's metrics.
    console: address of the console, without its token; empty: it is not served.
    """

    state: str
    pid: int
    bootstrap_servers: str
    prefix: str
    data_dir: str
    kafka_pid: int | None = None
    kafka_pids: tuple[int, ...] = ()
    controller_pid: int | None = None
    recovery_pids: tuple[int, ...] = ()
    started_ms: int = 0
    plugins: str = ""
    host: str = ""
    secret_file: str = ""
    metrics: dict[str, str] = {}
    console: str = ""


class WorkerProcess(msgspec.Struct, frozen=True):
    """A worker's process.

    pid: None while it is being restarted.
    """

    worker: str
    incarnation: str
    pid: int | None
    zone: str
    restarts: int = 0


class AlreadyRunning(HoldfastError):
    """A supervisor has taken the data directory after the command looked for one."""

    def __init__(self, data_dir: Path) -> None:
        stop = f"`holdfast down --data-dir {data_dir}` stops it"
        super().__init__(f"a cluster has just started in {data_dir}: {stop}, or give another folder: --data-dir")


class ClusterFiles:
    """The files of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.absolute()
        self._lock: int | None = None

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"

    def make(self) -> None:
        """Makes the directory, for its owner alone: state and logs hold users' records. An existing directory stays as
        it is.
        """
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    # -- lock ---------------------------------------------------------------------------------------------------------

    def take(self) -> None:
        """Holds the directory until this process ends. Raises AlreadyRunning."""
        self.make()
        for name in OURS:
            make_private(self.data_dir / name)
        lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        if not _get(lock):
            os.close(lock)
            raise AlreadyRunning(self.data_dir)
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        self._lock = lock

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def identity(self) -> str:
        """The stored id of this directory; a new one per call if it cannot be stored."""
        file = self.data_dir / "identity"
        with suppress(OSError):
            if known := file.read_text().strip():
                return known
        made = secrets.token_hex(4)
        with suppress(OSError):
            file.write_text(f"{made}\n")
        return made

    def supervisor(self) -> int | None:
        """The process number of the supervisor, None if none runs."""
        try:
            lock = os.open(self._lock_file, os.O_RDWR)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            while not _free(lock):
                if text := os.pread(lock, 32, 0).strip():
                    return int(text)
                time.sleep(0.001)  # the holder of the lock is about to write its number
            return None
        finally:
            os.close(lock)

    # -- what runs ----------------------------------------------------------------------------------------------------

    def write_cluster(self, cluster: Cluster) -> None:
        self._write("cluster.json", cluster)

    def write_workers(self, workers: list[WorkerProcess]) -> None:
        self._write("workers.json", workers)

    def write_metrics(self, targets: list[Target]) -> None:
        """Writes the addresses for Prometheus; no file if there are none."""
        if targets:
            self._write("metrics.json", targets)
            (self.data_dir / "metrics.json").chmod(0o644)  # for a Prometheus of another user

    def cluster(self) -> Cluster | None:
        """The last cluster of the directory, which may have ended; None if there never was one."""
        return self._read("cluster.json", Cluster)

    def workers(self) -> list[WorkerProcess]:
        return self._read("workers.json", list[WorkerProcess]) or []

    def running(self) -> Cluster | None:
        """The cluster that runs here now, None if none does or it has just begun to start."""
        pid, cluster = self.supervisor(), self.cluster()
        return cluster if cluster is not None and cluster.pid == pid else None

    def forget(self) -> None:
        """Removes the files about running processes, after their end."""
        for name in ("cluster.json", "workers.json", "metrics.json"):
            (self.data_dir / name).unlink(missing_ok=True)

    def purge(self) -> None:
        """Removes all files of the product, and the directory if it is then empty."""
        self.forget()
        for name in OURS:
            shutil.rmtree(self.data_dir / name, ignore_errors=True)
        self._lock_file.unlink(missing_ok=True)
        (self.data_dir / "identity").unlink(missing_ok=True)
        if self.data_dir.is_dir() and not any(self.data_dir.iterdir()):
            self.data_dir.rmdir()

    @property
    def _lock_file(self) -> Path:
        return self.data_dir / "supervisor.lock"

    def _write(self, name: str, content: object) -> None:
        beside = self.data_dir / f".{name}"
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
        beside.replace(self.data_dir / name)

    def _read(self, name: str, kind: type[_T]) -> _T | None:
        try:
            return msgspec.json.decode((self.data_dir / name).read_bytes(), type=kind)
        except (FileNotFoundError, msgspec.DecodeError):
            return None


def _get(lock: int) -> bool:
    """Tries for a moment: another command may just be checking whether it is free."""
    for _ in range(LOOKS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.01)
    return False


def _free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True
