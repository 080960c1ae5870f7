"""The process of a decider: it is fed what is there, runs its app, and ends with a status for its parent."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.memory import MemoryLog
from holdfast.services.process import decider
from holdfast.services.process.decider import Decider
from holdfast.services.process.settings import DeciderSettings

TOPICS = ClusterTopics("t")
BEATS, ASSIGNED = Partition(TOPICS.heartbeats, 0), Partition(TOPICS.assignments, 0)
NOW_MS, HISTORY_MS = 100_000, 10_000


class Log(MemoryLog):
    """A log in memory with consumer groups."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW_MS)
        self.groups: dict[str, Mapping[Partition, int]] = {}
        self.create(TOPICS.specs())

    def start_group(self, group: str, positions: Mapping[Partition, int]) -> None:
        self.groups[group] = positions


class App:
    """An app that runs until it is stopped, or crashes at its start."""

    def __init__(self, crash_reason: BaseException | None = None) -> None:
        self.crash_reason = crash_reason
        self._ended = asyncio.Event()

    async def start(self) -> None:
        if self.crash_reason is not None:
            self._ended.set()

    async def stop(self) -> None:
        self._ended.set()

    async def wait_until_stopped(self) -> None:
        await self._ended.wait()


class Shell:
    """Notes the offsets that it is fed."""

    def __init__(self) -> None:
        self.fed: list[tuple[Partition, int]] = []

    def feed(self, partition: Partition, offset: int, timestamp_ms: int, value: bytes | None) -> None:
        self.fed.append((partition, offset))

    read = feed

    def passed(self, partition: Partition, offset: int) -> None:
        raise AssertionError("every record counts")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(decider, "open_cluster", lambda *_: (log, TOPICS))
    monkeypatch.setattr("holdfast.services.log.faust.catching_up.time.time", lambda: NOW_MS / 1000)
    return log


def status(app: Callable[[], Any], *, end: Callable[[], None] = lambda: None) -> int:
    """The exit status of a process that runs the app, and in which `end` is called once the app runs."""

    async def run() -> int:
        made = Decider("recovery", "r", DeciderSettings(cluster="t"))
        asyncio.get_running_loop().call_soon(end)
        return await made.run(app())

    return asyncio.run(run())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_without_an_error(log: Log, number: int) -> None:
    assert status(App, end=lambda: os.kill(os.getpid(), number)) == 0


def test_an_app_that_crashes_ends_the_process_with_an_error(log: Log) -> None:
    assert status(lambda: App(KeyError("a defect"))) == 1


def test_the_shell_is_fed_what_is_there_and_recent_and_the_group_continues_behind(log: Log) -> None:
    appender = log.appender("a")
    for age_ms in (2 * HISTORY_MS, 0):
        appender.append(BEATS, b"", timestamp_ms=NOW_MS - age_ms)
    appender.append(ASSIGNED, b"no record")
    appender.flush(1)
    shell = Shell()

    async def begin() -> Backlog:
        made = Decider("recovery", "r", DeciderSettings(cluster="t"))
        begins = made.begins(HISTORY_MS)
        backlog = Backlog.of(log, begins)
        made.app(shell, {ASSIGNED: "assignments"}, begins, backlog)
        return backlog

    assert asyncio.run(begin()).left == []
    assert [offset for partition, offset in shell.fed if partition == BEATS] == [1]
    assert log.groups["t-r"][BEATS] == 2
    assert log.groups["t-r"][ASSIGNED] == 1
