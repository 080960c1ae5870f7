"""A worker that is stalled is stopped, and continues whatever becomes of the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.services.node.machine.cluster_files import Cluster, ClusterFiles, WorkerProcess
from tests.support.deadlines import HANG_S

HOLDFAST = Path(sys.executable).parent / "holdfast"
STALL_S = 4.0
"""So long that it is seen although this process may be held up."""


class Stage:
    """A cluster directory as if its supervisor were this process, with one worker that only sleeps."""

    def __init__(self, folder: Path) -> None:
        self.files = ClusterFiles(folder)
        self.files.take()
        self.worker = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        self.files.write_cluster(Cluster("ready", os.getpid(), "nowhere:1", "holdfast", str(folder)))
        self.files.write_workers([WorkerProcess("worker-1", "a", self.worker.pid, "zone-1")])

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [str(HOLDFAST), *words, "--data-dir", str(self.files.data_dir)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def call(self, *words: str) -> tuple[int, str]:
        process = self.start(*words)
        out, _ = process.communicate(timeout=HANG_S)
        return process.returncode, out

    @property
    def stopped(self) -> bool:
        stat = Path(f"/proc/{self.worker.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def close(self) -> None:
        self.worker.kill()
        self.worker.wait()
        self.files.release()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    try:
        yield stage
    finally:
        stage.close()


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.slow
def test_a_stalled_worker_is_stopped_and_then_continues(stage: Stage) -> None:
    process = stage.start("stall", "worker-1", "--seconds", str(STALL_S), "--json")
    until(lambda: stage.stopped)
    out, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0
    assert not stage.stopped
    told = json.loads(out)
    assert (told["worker"], told["pid"], told["interrupted"]) == ("worker-1", stage.worker.pid, False)
    assert told["seconds"] >= STALL_S


def test_a_worker_that_is_stalled_with_a_duty_stops_and_goes(stage: Stage) -> None:
    process = stage.start("stall", "worker-1", "--seconds", "60", "--duty", "0.5")
    for _ in range(3):
        until(lambda: stage.stopped)
        until(lambda: not stage.stopped)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=HANG_S)
    assert not stage.stopped


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stalled_worker_continues_when_the_command_is_ended(stage: Stage, number: signal.Signals) -> None:
    process = stage.start("stall", "worker-1", "--seconds", "60")
    until(lambda: stage.stopped)
    process.send_signal(number)
    out, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert "stopped early" in out
    assert not stage.stopped


@pytest.mark.slow
def test_a_worker_that_ends_meanwhile_is_said(stage: Stage) -> None:
    process = stage.start("stall", "worker-1", "--seconds", "60")
    until(lambda: stage.stopped)
    stage.worker.kill()
    stage.worker.wait()
    out, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert "has just ended" in out


@pytest.mark.slow
def test_kill_ends_it_and_unknown_workers_are_named(stage: Stage) -> None:
    assert stage.call("kill", "worker-1")[0] == 0
    assert stage.worker.wait() == -signal.SIGKILL
    for command in (["kill", "worker-9"], ["stall", "worker-9", "--seconds", "1"]):
        status, out = stage.call(*command)
        assert (status, "there are: worker-1" in out) == (2, True)
