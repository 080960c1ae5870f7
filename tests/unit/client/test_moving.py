"""`holdfast move` says where the unit runs now and how long that took, or why it runs where it did."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.schemas import assignments, commands, events
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.client import move as moving
from holdfast.services.client.move import Moved, move_unit
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.memory import MemoryLog
from holdfast.services.view.door import Door
from holdfast.services.view.lines import JobLine
from holdfast.services.view.reader import Watch

TOPICS = ClusterTopics("c")
G = "0-abcdef"
UNIT = unit_key("job", G, "u-0")
JOB = JobLine("job", G, "running", 1, 1)


class Cluster:
    """A log on which a unit runs on w1; `answers` is done once after the command was submitted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: Callable[[Cluster], None]) -> None:
        self.log = MemoryLog(lambda: 0)
        self.log.create(TOPICS.specs())
        self.place(1, "w1")
        take, left = Watch.records, [answers]

        def records(watch: Watch, timeout_s: float) -> object:
            while left:
                left.pop()(self)
            return take(watch, min(timeout_s, 0.05))

        monkeypatch.setattr(Watch, "records", records)

    def place(self, epoch: int, worker: str, moved: int = -1, reason: str = "placed", moving: str = "") -> None:
        copies = [Copy(worker, "1", PRIMARY)]
        if moving:
            copies.append(Copy(moving, "1", assignments.Flags(send=False, commit=False)))
        change = Change(UNIT, epoch, tuple(copies), reason=reason, moved=moved, moving=moving)
        self.append(TOPICS.assignments, assignments.encode(Assignment("r", 0, (change,))))

    def tell(self, kind: str, epoch: int = -1, unit: str = "u-0", **phases_ms: float) -> None:
        self.append(TOPICS.events, events.encode(Event(0, kind, "job", unit, epoch, "w2", kind, phases_ms)))

    def append(self, topic: str, value: bytes) -> None:
        self.log.appender("test").append(Partition(topic, 0), value)

    def move(self, timeout_s: float = 5.0) -> Moved:
        door = cast(Door, SimpleNamespace(log=self.log, topics=TOPICS))
        return move_unit(door, JOB, "u-0", "w2", timeout_s)


def test_a_move_that_is_done_says_how_long_it_took_and_how_long_its_unit_was_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answers(cluster: Cluster) -> None:
        found = cluster.log.last(Partition(TOPICS.submit, 0))
        assert found is not None
        assert commands.decode(found.value() or b"") == Command("move", "job", "u-0", worker="w2")
        cluster.place(2, "w1", moved=0, moving="w2")
        cluster.place(3, "w2", moved=0)
        cluster.tell("move-done", 3, move=120.0)
        cluster.tell("unit-active", 2, first_output=5.0)
        cluster.tell("unit-active", 3, unit="u-1", first_output=6.0)
        cluster.tell("unit-active", 3, activation=1.0, replay=0.0, first_output=7.5)

    assert Cluster(monkeypatch, answers).move() == Moved(120.0, 7.5)


def test_a_move_counts_by_what_is_decided_though_nobody_tells_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "ACTIVE_S", 0.1)
    found = Cluster(monkeypatch, lambda cluster: cluster.place(2, "w2", moved=0)).move()
    assert found.silence_ms is None


def test_a_move_that_is_refused_or_given_up_fails_with_the_reason_that_was_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answers(cluster: Cluster) -> None:
        cluster.place(2, "w1", moved=0, reason="nothing moves (w2 does not answer)")
        cluster.tell("move-refused", 2)

    with pytest.raises(CommandFailed, match="w2 does not answer"):
        Cluster(monkeypatch, answers).move()


def test_a_command_that_the_controller_refuses_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandFailed, match="refused: command-refused"):
        Cluster(monkeypatch, lambda cluster: cluster.tell("command-refused")).move()


def test_a_move_that_is_not_done_in_time_continues_and_the_command_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandFailed, match=r"u-0 does not run on w2 after 0\.3 s"):
        Cluster(monkeypatch, lambda cluster: cluster.place(2, "w1", moved=0, moving="w2")).move(0.3)
