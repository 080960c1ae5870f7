"""A real cluster whose workers die at chosen records: its supervisor lives in this process."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from holdfast.services.kernel.operators.python import restrict
from holdfast.services.node.lineup import Lineup, Own
from holdfast.services.node.machine import restarts
from holdfast.services.node.members.members import Member
from holdfast.services.node.settings import Settings
from holdfast.services.node.supervisor import Supervisor
from tests.support.cluster import Cluster, logs_in
from tests.support.doomed_worker import Doom

ROOT = Path(__file__).parents[2]
START_S = 180.0
"""Machines that run tests are busy."""


class DoomedLineup(Lineup):
    """Starts `tests.support.doomed_worker` for each worker."""

    def member(self, name: str, module: str, own: Own) -> Member:
        doomed = {"DOOM_DIR": str(self.settings.home / "doom"), "HOLDFAST_PLUGINS": "tests"}
        if module == "holdfast.services.worker":
            module = "tests.support.doomed_worker"
        return super().member(name, module, lambda run: own(run) | doomed)


class DoomedSupervisor(Supervisor):
    lineup = DoomedLineup


class DoomedCluster(Cluster):
    """A running cluster; doom: what is armed. Use `cluster_of` to start one."""

    def __init__(self, supervisor: DoomedSupervisor) -> None:
        super().__init__(supervisor.topics)
        self.connect(supervisor.cluster.bootstrap_servers)
        self.supervisor = supervisor
        self._armed = supervisor.settings.home / "doom" / "armed"
        self._fired = self._armed.with_name("fired")
        self._armed.parent.mkdir(parents=True, exist_ok=True)

    def logs(self) -> str:
        return logs_in(self.supervisor.files.logs)

    # -- killing ------------------------------------------------------------------------------------------------------

    def arm(self, doom: Doom) -> None:
        self._fired.unlink(missing_ok=True)
        beside = self._armed.with_name(f"armed-{time.monotonic_ns()}")
        beside.write_bytes(msgspec.json.encode(doom))
        beside.rename(self._armed)

    def disarm(self) -> None:
        self._armed.unlink(missing_ok=True)

    def withdraw(self) -> bool:
        """Disarms the fault; False if it has fired."""
        self.disarm()
        return not self.fired

    @property
    def fired(self) -> bool:
        return self._fired.exists()

    def kill(self, chance: random.Random, spared: Collection[str] = ()) -> str:
        """SIGKILL to a worker that runs; its name, or nothing when none does. spared: not one of these."""
        workers = [(worker.name, worker.pid) for worker in self.supervisor.workers if worker.name not in spared]
        running = [(name, pid) for name, pid in workers if pid is not None]
        if not running:
            return ""
        name, pid = chance.choice(running)
        os.kill(pid, signal.SIGKILL)
        return name

    def all_run(self) -> bool:
        return all(worker.pid is not None for worker in self.supervisor.workers)

    def ends(self) -> int:
        """Number of times that a worker was started again."""
        return sum(worker.restarts for worker in self.supervisor.workers)


@contextmanager
def cluster_of(
    workers: int,
    folder: Path,
    kind: type[DoomedSupervisor] = DoomedSupervisor,
    steady_s: float = 0.0,
    **settings: Any,
) -> Iterator[DoomedCluster]:
    """Stopped at the end, however that comes; a second Ctrl-C does not leave it half down.

    Args:
        steady_s: a process that ran for so long is started again at once: each that a test kills.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    restrict(["tests"])
    supervisor = kind(Settings(home=folder, slots=64, **settings), workers)
    found_here = mock.patch.dict(os.environ, {"PYTHONPATH": str(ROOT)})
    with mock.patch.object(restarts, "STEADY_S", steady_s), found_here:
        supervisor.start(START_S)
        keeper = threading.Thread(target=supervisor.run, name="supervisor", daemon=True)
        keeper.start()
        cluster = DoomedCluster(supervisor)
        try:
            yield cluster
        finally:
            with _uninterrupted():
                cluster.close()
                supervisor.ask_to_stop()
                keeper.join()
                supervisor.stop()
                restrict(None)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
