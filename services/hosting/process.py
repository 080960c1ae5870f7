"""The process of a host, from its log to its farewell.

Source: PROTOCOL 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import structlog

from schemas.topics import ClusterTopics, Partition
from services.hosting.ending import Ending, Leaving
from services.hosting.heartbeats import CostsOf, HeartbeatThread, Place, Reporting
from services.hosting.metrics import of_copies
from services.hosting.settings import HostSettings
from services.kernel.errors import WorkerUnfit
from services.kernel.versions import library_versions
from services.log.metrics import of_process, of_refusals
from services.log.opening import look_at_secret, open_log
from services.log.protocol import Log
from services.log.sealed import SealedLog

_log = structlog.get_logger()


class Host(Reporting, Leaving, Protocol):
    """A worker or a Spark driver."""

    def stops(self, cause: str) -> None:
        """Publishes why it can hold copies no longer."""
        ...

    def close(self) -> None:
        """Leaves every copy as it is: a restart finds everything in the log."""
        ...


def clock_ms() -> float:
    """Monotonic, milliseconds."""
    return time.monotonic() * 1000


def time_ms() -> int:
    """Time of day, milliseconds."""
    return int(time.time() * 1000)


def open_cluster(settings: HostSettings, name: str) -> tuple[Log, ClusterTopics]:
    """The log of a host's process, and the cluster's topics, which are there."""
    topics = ClusterTopics(settings.cluster)
    log = open_log(settings.kafka, settings.cluster, name, report=True)
    log.create(topics.specs())
    look_at_secret(log, topics)
    return log, topics


def serve(
    host: Host,
    turn: Callable[[], None],
    settings: HostSettings,
    log: Log,
    ending: Ending,
    costs: CostsOf | None = None,
) -> int:
    """Turns the host until it is to end, or can hold copies no longer; the exit status of its process.

    Nothing needs saving: everything that counts is in the log. costs: of the copies here; None: nothing is measured.
    """
    beats = HeartbeatThread(
        host,
        log.appender(f"heartbeat-{host.identity.worker}"),
        Partition(ClusterTopics(settings.cluster).heartbeats, 0),
        settings.heartbeat_interval_ms,
        library_versions(),
        time_ms,
        Place(settings.host, settings.address),
        log.refusals if isinstance(log, SealedLog) else None,
        costs,
    )
    beats.start()
    if settings.metrics_port:
        _serve_metrics(host, settings, costs)
    status = 0
    try:
        while not ending.due(host, beats):
            turn()
    except WorkerUnfit as error:
        _log.error("the process ends", cause=str(error))
        host.stops(str(error))
        status = 1
    beats.stop()
    if host.leaving:
        beats.say_farewell()
    host.close()
    return status


def _serve_metrics(host: Host, settings: HostSettings, costs: CostsOf | None) -> None:
    from services.log.metrics_server import registry_of, serve

    identity = host.identity
    registry = registry_of(
        of_process(identity.worker, "driver" if identity.hosts else "worker"),
        of_copies(host.copies, costs),
        of_refusals(host.refusals.most),
    )
    serve(registry, settings.metrics_port, settings.metrics_address)
