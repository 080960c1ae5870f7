"""A spare has loaded all that a worker needs, becomes the next one, and is reported like any run of a member."""

from __future__ import annotations

import os
import queue
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.services.node.machine.processes import service_command
from holdfast.services.node.members.members import Member
from holdfast.services.node.members.spares import Spare, Spares
from tests.support.commands import until
from tests.support.deadlines import HANG_S

WORKER = """
import os, signal
from holdfast.services.worker.process.lifeline import hold
from holdfast.services.worker.process.spare import become
if become():
    hold()
    print("runs as", os.environ["NAME"], flush=True)
    os.write(int(os.environ["TOLD"]), b"1") if "TOLD" in os.environ else None
    signal.pause()
"""
COMMAND = (sys.executable, "-c", WORKER)


class Fleet:
    """One member and its spares, and what is reported of its runs."""

    def __init__(self, folder: Path) -> None:
        self.log, self.told = folder / "worker-1.log", queue.SimpleQueue[tuple[str, str, int]]()
        self.runs = iter(map(str, range(1, 100)))
        self.member = Member(
            "worker-1", "holdfast.services.worker", self.log,
            environment=lambda run: {"NAME": f"worker-1 {run}"},
            new_run=lambda former: next(self.runs),
            ended=lambda member, run, status: self.told.put(("ended", run, status)),
        )  # fmt: skip
        self.member.command = COMMAND
        self.member.dying = lambda member, run: self.told.put(("dying", run, 0))
        self.spares = Spares([self.member])

    def provided(self, monkeypatch: pytest.MonkeyPatch) -> int:
        monkeypatch.setattr("holdfast.services.node.members.spares.CALM_S", 0.0)
        self.spares.provide()
        assert self.spares.pid is not None
        return self.spares.pid

    def next_told(self) -> tuple[str, str, int]:
        return self.told.get(timeout=HANG_S)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    made.spares.close()
    made.member.stop()


def test_the_next_run_is_the_spare_that_waits(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.member.start()
    until(lambda: "runs as worker-1 1" in fleet.log.read_text(), "it is so")
    spare = fleet.provided(monkeypatch)
    assert fleet.member._child is not None
    fleet.member._child.kill()
    assert {fleet.next_told(), fleet.next_told()} == {("dying", "1", 0), ("ended", "1", -signal.SIGKILL)}
    fleet.member.start()
    assert (fleet.member.pid, fleet.spares.pid) == (spare, None)
    until(lambda: "runs as worker-1 2" in fleet.log.read_text(), "it is so")
    assert fleet.provided(monkeypatch) != spare, "the next one is made"
    fleet.member._child.kill()
    assert {fleet.next_told(), fleet.next_told()} == {("dying", "2", 0), ("ended", "2", -signal.SIGKILL)}


def test_a_run_starts_as_without_a_spare_if_the_spare_has_ended(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.member.start()
    fleet.provided(monkeypatch)
    spare = fleet.spares._spare
    assert spare is not None
    spare.child.kill()
    until(lambda: spare.gone, "it is so")
    fleet.member.ask_to_stop()
    assert fleet.next_told()[1] == "1"
    fleet.member.start()
    until(lambda: "runs as worker-1 2" in fleet.log.read_text(), "it is so")


def test_none_is_made_before_every_member_has_run_for_a_while(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.spares.provide()
    assert fleet.spares.pid is None
    fleet.member.start()
    fleet.spares.provide()
    assert fleet.spares.pid is None
    fleet.provided(monkeypatch)


def test_a_spare_that_ends_by_itself_is_not_made_again_at_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.member.start()
    first = fleet.provided(monkeypatch)
    spare = fleet.spares._spare
    assert spare is not None
    spare.child.kill()
    until(lambda: spare.gone, "it is so")
    fleet.spares.provide()
    assert fleet.spares.pid is None
    monkeypatch.setattr("holdfast.services.node.machine.restarts.DELAYS_S", (0.0,))
    fleet.spares._due_s = 0.0
    assert fleet.provided(monkeypatch) != first


@pytest.mark.slow
def test_a_worker_that_is_not_wanted_ends_without_a_word() -> None:
    spare = Spare(service_command("holdfast.services.worker"))
    os.close(spare._telling)
    assert spare.child.wait(HANG_S) == 0
