"""The process of a decider, a controller or a recovery replica, from the opening of its log to its end.

Source: PROTOCOL 1. The process reads what was there at its start in bulk; behind that, agents of a Faust app read.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from typing import Protocol

from holdfast.schemas.topics import Partition
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.log.door import gate, open_cluster
from holdfast.services.log.faust.agents import App, make_app
from holdfast.services.log.faust.catching_up import catch_up, continue_group, recent
from holdfast.services.log.faust.heartbeat_listener import listen
from holdfast.services.log.kafka.client_settings import client_settings
from holdfast.services.log.kafka.durability import Durability
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.late.jobs import positions, read_jobs
from holdfast.services.process.health import Health, answering, reading
from holdfast.services.process.settings import DeciderSettings

STOP_S = 0.5
"""Longest wait for the app's end; a decider has nothing to save."""

_log = get_logger()


class Shell(Protocol):
    """The decider between the log and its core; all calls come from the event loop."""

    def feed(self, partition: Partition, offset: int, timestamp_ms: int, value: bytes | None) -> None:
        """Takes a record from before the start."""

    def read(self, partition: Partition, offset: int, timestamp_ms: int, value: bytes | None) -> None:
        """Takes a later record."""

    def passed(self, partition: Partition, offset: int) -> None:
        """Takes the offset of a later record that does not count."""


class Decider:
    """The process of one decider, made in its event loop. Its methods raise Retriable.

    Attributes:
        log: log of the cluster.
        durability: durability of the topics that the process creates.
        standings: assignments that counted at the start.
        jobs: jobs that counted at the start.

    Args:
        kind: controller or recovery.
    """

    def __init__(self, kind: str, name: str, settings: DeciderSettings) -> None:
        self._kind = kind
        self._name = name
        self._settings = settings
        self._stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stopped.set)
        self.durability = Durability(settings.replication_factor, settings.min_insync_replicas)
        self.log, self.topics = open_cluster(settings.kafka, settings.cluster, name, self.durability)
        self.standings = read_standings(self.log, Partition(self.topics.assignments, 0))
        self.jobs = read_jobs(self.log, self.topics)

    def begins(self, history_ms: int) -> dict[Partition, int]:
        """Offsets behind what counted at the start, and of the first heartbeat that is not older than `history_ms`."""
        begins = positions(self.log, self.topics, self.jobs)
        begins |= recent(self.log, Partition(self.topics.heartbeats, 0), history_ms)
        return begins | {Partition(self.topics.assignments, 0): self.standings.next}

    def health(self, acting: Callable[[], bool]) -> Health:
        """Health of the process. `acting` returns True once the decider has read its log to the end."""
        checks = {"log": reading(acting), "kafka": answering(self.log, Partition(self.topics.events, 0))}
        return Health(self._name, self._kind, checks)

    def app(
        self,
        shell: Shell,
        kinds: Mapping[Partition, str],
        begins: Mapping[Partition, int],
        backlog: Backlog,
        *,
        patient: bool = False,
    ) -> App:
        """Feeds the shell all present records. Returns an app that feeds later ones.

        Args:
            kinds: names of the app's agents, by partition; heartbeats have a reader of their own.
            begins: offset at which reading begins, by partition.
            patient: see Log.reader; for heartbeats.
        """
        log, topics, group = self.log, self.topics, f"{self._settings.cluster}-{self._name}"
        beats = Partition(topics.heartbeats, 0)
        nexts = catch_up(log, begins, shell.feed)
        backlog.trimmed(nexts)
        aged = beats, Partition(topics.events, 0)
        agents = continue_group(log, group, nexts, shell.read, shell.passed, aged)
        app = make_app(group, self._settings.kafka, client_settings(), kinds, agents.read, agents.passed, gate(log))
        listen(app, log, "heartbeats", {beats: nexts[beats]}, agents.read, patient=patient)
        return app

    async def run(self, app: App) -> int:
        """Runs the app until SIGTERM or SIGINT, or until it crashes. Returns the exit status of the process."""
        await app.start()
        _log.info(f"{self._kind} runs", kafka=self._settings.kafka, cluster=self._settings.cluster, name=self._name)
        waits = {asyncio.ensure_future(self._stopped.wait()), asyncio.ensure_future(app.wait_until_stopped())}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if app.crash_reason is not None:
            _log.error("the app crashed", reason=repr(app.crash_reason))
        await asyncio.wait({asyncio.ensure_future(app.stop())}, timeout=STOP_S)
        return 0 if self._stopped.is_set() else 1
