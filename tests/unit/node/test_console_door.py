"""The console's door: nothing runs behind it until a browser asks."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.services.node import console_door
from holdfast.services.node.console_door import ADDRESS, ConsoleDoor
from holdfast.services.node.machine.processes import LIMITS
from tests.support.deadlines import HANG_S

ANSWERS = """
import os, socket, sys
taken = socket.socket(fileno=int(os.environ["LISTENS_ON"]))
while True:
    one, _ = taken.accept()
    one.sendall(str(os.getpid()).encode())
    one.close()
    if "once" in sys.argv:
        break
"""
"""In place of a console: says its process number to whoever asks."""


def asked(door: ConsoleDoor) -> int:
    """Number of the process that answers."""
    port = int(door.url.rstrip("/").rpartition(":")[2])
    with socket.create_connection((ADDRESS, port), timeout=HANG_S) as one:
        return int(one.recv(100))


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """More words of the command that is run."""
    words: list[str] = []
    monkeypatch.setattr(console_door, "service_command", lambda *given: (sys.executable, "-c", ANSWERS, *words))
    return words


@pytest.fixture
def door(tmp_path: Path, command: list[str]) -> Iterator[ConsoleDoor]:
    opened = ConsoleDoor(tmp_path, 0, tmp_path / "console.log", LIMITS)
    opened.open()
    yield opened
    opened.close()


def test_nothing_runs_until_somebody_asks_and_all_then_ask_the_same_process(door: ConsoleDoor) -> None:
    before = door.pid
    first = asked(door)
    assert (before, asked(door), door.pid) == (None, first, first)


def test_a_console_that_has_ended_is_started_again_for_the_next_one(
    door: ConsoleDoor, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_door, "PAUSE_S", 0.0)
    command.append("once")
    assert asked(door) != asked(door)


def test_closing_ends_the_console_and_frees_the_port(tmp_path: Path, command: list[str]) -> None:
    door = ConsoleDoor(tmp_path, 0, tmp_path / "console.log", LIMITS)
    door.open()
    pid = asked(door)
    door.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(OSError, match="refused"):
        asked(door)


def test_the_console_has_another_port_if_its_own_is_taken(door: ConsoleDoor, tmp_path: Path) -> None:
    taken = int(door.url.rstrip("/").rpartition(":")[2])
    other = ConsoleDoor(tmp_path, taken, tmp_path / "other.log", LIMITS)
    other.open()
    try:
        assert other.url != door.url
        assert asked(other) != asked(door)
    finally:
        other.close()


def test_a_door_that_was_never_opened_closes(tmp_path: Path) -> None:
    door = ConsoleDoor(tmp_path, 0, tmp_path / "console.log", LIMITS)
    door.close()
    assert (door.url, door.pid) == ("", None)
