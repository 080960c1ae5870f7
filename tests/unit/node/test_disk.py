"""Nothing that a supervisor writes ends it: each write fails in turn, is told once, and is tried until it succeeds."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.services.node import supervisor
from holdfast.services.node.kafka.brokers import Brokers
from holdfast.services.node.kafka.keeper import BrokerKeeper, BrokerReturned
from holdfast.services.node.machine import disk
from holdfast.services.node.machine.disk import Disk, put, shortage
from holdfast.services.node.machine.log_limits import LogLimits
from holdfast.services.node.machine.messages import say
from holdfast.services.node.machine.processes import Child, open_log
from holdfast.services.node.machine.restarts import Restarts
from holdfast.services.node.members.members import Member
from holdfast.services.node.settings import Settings
from holdfast.services.node.start import StartFailed
from holdfast.services.node.supervisor import Supervisor
from tests.support.commands import until
from tests.support.deadlines import HANG_S

FULL = "/dev/full"


class Fault:
    """Stands for a method: raises ENOSPC until it is mended, and counts its calls."""

    def __init__(self) -> None:
        self.calls, self.mended = 0, False

    def __call__(self, *_: Any, **__: Any) -> None:
        self.calls += 1
        if not self.mended:
            raise OSError(errno.ENOSPC, "No space left on device")


class Running:
    """A supervisor that keeps nothing running, in a thread."""

    def __init__(self, home: Path) -> None:
        self.told: list[str] = []
        self.supervisor = Supervisor(Settings(home=home), workers=1)
        self.supervisor.disk = Disk(home, lambda kind, detail: self.told.append(kind))
        self.thread = threading.Thread(target=self.supervisor.run, daemon=True)

    def stop(self) -> None:
        self.supervisor.ask_to_stop()
        self.thread.join(HANG_S)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(supervisor, "LOGS_S", 0.0)
    monkeypatch.setattr(supervisor, "PUBLISH_AGAIN_S", 0.0)
    monkeypatch.setattr(supervisor, "TICK_S", 0.01)
    monkeypatch.setattr(Member, "_start", lambda member: setattr(member, "_due", None))
    made = Running(tmp_path)
    try:
        yield made
    finally:
        made.stop()


WRITES = ["files.write_workers", "files.write_cluster", "workers.bound_log"]


@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_fails_does_not_end_the_supervisor_and_is_tried_again(
    running: Running, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    owner, method = write.split(".")
    target = getattr(running.supervisor, owner)
    fault = Fault()
    monkeypatch.setattr(target[0] if isinstance(target, list) else target, method, fault)
    running.thread.start()
    until(lambda: fault.calls > 1, "it is tried again", HANG_S)
    assert running.thread.is_alive()
    assert "No space left on device" in running.supervisor.disk.trouble
    fault.mended = True
    until(lambda: not running.supervisor.disk.trouble, "it succeeds", HANG_S)
    assert running.told == ["disk-full", "disk-has-room"], "each once"
    assert running.thread.is_alive()


def test_a_member_that_cannot_be_started_is_tried_again(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault()
    monkeypatch.setattr(running.supervisor.controllers[0], "_start", fault)
    running.thread.start()
    until(lambda: fault.calls > 1, "it is tried again", HANG_S)
    assert running.thread.is_alive()


def test_a_disk_that_fills_up_is_reported_before_anything_fails(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "shortage", lambda _: "no room: 7 bytes free")
    running.thread.start()
    until(lambda: running.told == ["disk-full"], "it is told", HANG_S)
    monkeypatch.setattr(disk, "shortage", lambda _: "")
    until(lambda: running.told == ["disk-full", "disk-has-room"], "it is told", HANG_S)


def test_a_full_disk_does_not_end_a_supervisor_that_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    full = open(FULL, "w", buffering=1)  # noqa: SIM115 (its end fails, too)
    monkeypatch.setattr(sys, "stderr", full)
    say("something")
    with pytest.raises(OSError, match="No space"):
        full.close()


class Kafka:
    """Stands for a broker that cannot be started for some time."""

    node = 1

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.starts = 0

    def start(self, timeout_s: float) -> None:
        self.starts += 1
        if self.errors:
            raise self.errors.pop()


def keeper(disk: Disk, broker: Kafka, happened: list[object]) -> BrokerKeeper:
    return BrokerKeeper(Brokers([broker]), disk, threading.Event(), happened.append)  # type: ignore[list-item]


def restarted(broker: Kafka, status: int, disk: Disk) -> None:
    happened: list[object] = []
    keeper(disk, broker, happened).restart(broker, status)  # type: ignore[arg-type]
    assert happened == [BrokerReturned(broker, status)]  # type: ignore[arg-type]


def silent(home: Path) -> Disk:
    return Disk(home, lambda kind, detail: None)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses are noted and left out."""
    pauses: list[float] = []

    def delay_s(_: object, lived_s: float) -> float:
        pauses.append(lived_s)
        return 0.001

    monkeypatch.setattr(Restarts, "delay_s", delay_s)
    return pauses


def test_kafka_is_started_again_whatever_its_start_raises(tmp_path: Path, hasty: list[float]) -> None:
    broker = Kafka(OSError(errno.ENOSPC, "No space left on device"), ValueError("half a port file"))
    restarted(broker, 1, silent(tmp_path))
    assert broker.starts == 3


def test_kafka_that_ended_by_itself_is_given_a_pause_and_one_that_was_killed_is_not(
    tmp_path: Path, hasty: list[float]
) -> None:
    restarted(Kafka(), -9, silent(tmp_path))
    assert not hasty
    restarted(Kafka(), 1, silent(tmp_path))
    assert len(hasty) == 1


def test_kafka_is_not_started_where_there_is_no_room(
    tmp_path: Path, hasty: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    watched = Disk(tmp_path, lambda kind, detail: said.append(f"{kind} {detail}"))
    answers = iter(["no room: 7 bytes free"] * 5)
    monkeypatch.setattr(disk, "shortage", lambda _: next(answers, ""))
    broker = Kafka()
    restarted(broker, 1, watched)
    assert broker.starts == 1
    assert [one.split()[0] for one in said] == ["disk-full", "disk-has-room"]
    assert "7 bytes free" in said[0]
    assert not watched.trouble


def test_a_cluster_does_not_start_on_a_full_disk_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Supervisor(Settings(home=tmp_path), workers=1)
    monkeypatch.setattr(made.files, "take", Fault())
    with pytest.raises(StartFailed, match=r"its disk is full .free some room, or give a folder"):
        made.start()


def test_a_full_disk_leaves_the_former_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "port"
    put(file, "20000\n")
    monkeypatch.setattr(Path, "write_text", Fault())
    put(file, "20000\n")
    with pytest.raises(OSError, match="No space"):
        put(file, "20001\n")
    assert file.read_text() == "20000\n"


def test_a_process_starts_where_no_log_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where the directory should be")
    log = tmp_path / "logs" / "x.log"
    with open_log(log) as output:
        assert output.name == os.devnull
    assert Child([sys.executable, "-c", "print('x')"], log=log).wait(HANG_S) == 0


def test_a_log_is_bounded_also_where_there_is_no_room_to_put_it_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "x.log"
    limits = LogLimits(bytes=10)
    member = Member("x", "x", log, environment=lambda run: {}, new_run=str, ended=lambda *_: None, limits=limits)

    def half(_: Path, aside: Path) -> None:
        aside.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", half)
    log.write_text("x" * 100)
    member.bound_log()
    assert log.stat().st_size == 0
    assert [one.name for one in tmp_path.iterdir()] == ["x.log"]


SAYS = """
import logging, sys, warnings
from holdfast.services.diagnostics.service_log import open_service_log
import structlog

open_service_log("info")
for n in range(1000):
    structlog.get_logger().info("said", detail="x" * 100, n=n)
    logging.getLogger("lib").warning("said")
    print("said", file=sys.stderr)
    print("said", flush=True)
sys.stderr.flush()
sys.exit(7)
"""


def test_a_service_whose_log_cannot_be_written_continues() -> None:
    with open(FULL, "w") as full:
        done = subprocess.run([sys.executable, "-c", SAYS], stdout=full, stderr=full, check=False)
    assert done.returncode == 7


def test_a_disk_says_how_much_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shortage(tmp_path) == ""
    assert shortage(tmp_path / "none") == ""
    monkeypatch.setattr(disk, "LOW_BYTES", 1 << 60)
    assert shortage(tmp_path).startswith(f"no room in {tmp_path}: ")
