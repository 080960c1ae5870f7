"""The start of a cluster on this machine: what it needs, what it waits for, and why it fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from holdfast.schemas.topics import ClusterTopics
from holdfast.services.kernel.errors import HoldfastError, Retriable
from holdfast.services.log.kafka.durability import Durability
from holdfast.services.log.protocol import Log
from holdfast.services.node.kafka.broker import BrokerFailed, BrokerRunning
from holdfast.services.node.machine.artifacts import ArtifactsMissing
from holdfast.services.node.machine.folders import explained
from holdfast.services.node.machine.java import JavaMissing
from holdfast.services.node.machine.log_limits import MIB
from holdfast.services.node.machine.messages import say
from holdfast.services.node.machine.processes import tail
from holdfast.services.node.members.claim import Claim
from holdfast.services.node.members.clashes import running_at
from holdfast.services.node.members.members import Member
from holdfast.services.node.members.readiness import Readiness
from holdfast.services.node.members.start_limit import StartLimit
from holdfast.services.node.settings import Settings

EXPECTED = (ArtifactsMissing, BrokerFailed, BrokerRunning, HoldfastError, JavaMissing)
"""Errors that explain why a cluster does not start; their messages name the fix."""
MOST_RESTARTS = 2
"""A member that was started again more often during the start ends as soon as it starts."""


class StartFailed(HoldfastError):
    """The cluster did not become ready."""


class Stopped(Exception):
    """The supervisor was asked to stop before it was ready."""


def unwritten(error: OSError, data_dir: Path) -> StartFailed:
    """The error of a start whose data directory could not be written."""
    why, hint = explained(error, data_dir)
    return StartFailed(f"the cluster cannot be started: {why}{f' ({hint})' if hint else ''}")


def create_topics(log: Log, topics: ClusterTopics, settings: Settings) -> None:
    """Creates the cluster's topics, and sets how long events are kept. Raises Retriable."""
    specs = topics.specs(int(settings.keep_events_s * 1000), settings.keep_events_mb * MIB)
    log.create(_durability(settings).of(specs))
    try:
        log.configure(spec for spec in specs if spec.name == topics.events)  # the topic may be older
    except Retriable as error:
        say(f"HOLDFAST_KEEP_EVENTS_S and _MB have no effect on the topic that is there: {error}")


def _durability(settings: Settings) -> Durability:
    """A setting that is not given is left to the broker, which knows how many brokers there are."""
    said = settings.model_fields_set
    return Durability(**{
        name: getattr(settings, name) for name in ("replication_factor", "min_insync_replicas") if name in said
    })  # fmt: skip


class Start:
    """A start that waits for a sign of each member.

    Args:
        workers: names of the workers that it waits for.
        claim: the claim to the names, where another supervisor may have them.
        logs: folder of the logs.
    """

    def __init__(
        self, readiness: Readiness, workers: Iterable[str], limit: StartLimit, claim: Claim | None, logs: Path
    ) -> None:
        self._readiness = readiness
        self._workers = set(workers)
        self._limit = limit
        self._claim = claim
        self._logs = logs

    def wait(self, members: Callable[[], list[Member]], turn: Callable[[], None]) -> None:
        """Returns once every member has given its sign.

        turn: called again and again meanwhile; raises Stopped to give up.

        Raises:
            StartFailed, Clash: the start cannot succeed.
        """
        while not self._readiness.reached(self._workers):
            self._check(members())
            turn()
            self._readiness.poll(0.02)

    def _check(self, members: list[Member]) -> None:
        failing = next((member for member in members if member.restarts > MOST_RESTARTS), None)
        if failing is not None:
            said = "" if failing.log is None else f": see {failing.log}\n{tail(failing.log, 15)}"
            raise StartFailed(f"{failing.name} ends as soon as it starts{said}")
        if self._claim is not None and self._readiness.stranger is not None:
            raise self._claim.clash(running_at(self._readiness.stranger))
        missing = self._readiness.missing(self._workers)
        if self._limit.over(time.monotonic(), {one.name: one.processor_s for one in members if one.name in missing}):
            raise StartFailed(f"no sign of life of {', '.join(missing)} in time: see {self._logs}")
