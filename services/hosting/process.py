"""The process of a host, from the opening of its log to its exit notice.

Source: PROTOCOL 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.hosting.heartbeats import CostsOf, HeartbeatThread, Place, Reporting
from holdfast.services.hosting.host_end import HostEnd, Leaving
from holdfast.services.hosting.lags import Taken, of_lags
from holdfast.services.hosting.memory import Memory
from holdfast.services.hosting.metrics import of_copies
from holdfast.services.hosting.present_work import PresentWork
from holdfast.services.hosting.settings import HostSettings
from holdfast.services.hosting.watchdog import Watchdog, end_process
from holdfast.services.kernel.errors import WorkerUnfit
from holdfast.services.kernel.versions import versions
from holdfast.services.log.door import refused_by
from holdfast.services.log.protocol import Log
from holdfast.services.process.health import Check, Health, answering, reading
from holdfast.services.process.metrics import of_process, of_refusals

_log = get_logger()


class Host(Reporting, Leaving, Protocol):
    """A worker or a Spark driver. `doing` holds the present work of its loop."""

    doing: PresentWork

    @property
    def caught_up(self) -> bool:
        """True if all decisions from before the start were read."""
        ...

    def stops(self, cause: str) -> None:
        """Publishes the reason why the host can no longer hold copies."""
        ...

    def close(self) -> None:
        """Closes the host and leaves every copy as it is. A restart finds all state in the log."""
        ...


def clock_ms() -> float:
    """The monotonic time in milliseconds."""
    return time.monotonic() * 1000


def time_ms() -> int:
    """The time of day in milliseconds since 1970."""
    return int(time.time() * 1000)


def serve(
    host: Host,
    turn: Callable[[], None],
    settings: HostSettings,
    log: Log,
    ending: HostEnd,
    costs: CostsOf | None = None,
    taken: Callable[[], Sequence[Taken]] = tuple,
) -> int:
    """Runs the host's loop until the host must end or can no longer hold copies. Returns the exit status of the
    process.

    Nothing is saved at the end, because the log holds everything.

    Args:
        costs: costs of the copies here; None if nothing is measured.
        taken: progress of the copies in the users' topics.
    """
    topics = ClusterTopics(settings.cluster)

    def end(cause: str) -> None:
        """Publishes the cause and ends the process. Called in the watchdog's thread, because the loop may hang."""
        beats.say_last(cause)
        end_process(cause)

    states: Callable[[], set[str]] = lambda: {copy.state for copy in host.copies()}  # noqa: E731
    watchdog = Watchdog(host.doing, settings.loop_patience_s, states, end, memory=Memory(settings.memory_mb))
    beats = HeartbeatThread(
        host,
        log.appender(f"heartbeat-{host.identity.worker}"),
        Partition(topics.heartbeats, 0),
        settings.heartbeat_interval_ms,
        versions=versions(tuple(settings.allow)),
        time_ms=time_ms,
        place=Place(settings.host, settings.address),
        unsealed=refused_by(log),
        costs=costs,
        turn=lambda: watchdog.turn,
        events=Partition(topics.events, 0),
    )
    beats.start()
    health = _health(host, settings, log, watchdog)
    watchdog.start()
    if settings.metrics_port:
        _serve_metrics(host, settings, log, health, costs, taken)
    status = 0
    try:
        while not ending.due(host, beats):
            turn()
            health.turned()
            host.doing.turned()
    except WorkerUnfit as error:
        _log.error("the process ends", cause=str(error))
        host.stops(str(error))
        status = 1
    watchdog.stop()
    beats.stop()
    if host.leaving:
        beats.say_farewell()
    host.close()
    return status


def _health(host: Host, settings: HostSettings, log: Log, watchdog: Watchdog) -> Health:
    events = Partition(ClusterTopics(settings.cluster).events, 0)

    def turn() -> Check:
        turn = watchdog.turn
        if turn is None:
            return Check(True, "takes less than a second")
        return Check(not turn.stuck, f"takes {turn.ms / 1000:.1f} s so far, {turn.unit or 'for no unit'}")

    checks = {"log": reading(lambda: host.caught_up), "kafka": answering(log, events), "turn": turn}
    return Health(host.identity.worker, _kind(host), checks)


def _kind(host: Host) -> str:
    return "driver" if host.identity.hosts else "worker"


def _serve_metrics(
    host: Host,
    settings: HostSettings,
    log: Log,
    health: Health,
    costs: CostsOf | None,
    taken: Callable[[], Sequence[Taken]],
) -> None:
    from holdfast.services.process.metrics_server import registry_of, serve

    registry = registry_of(
        of_process(host.identity.worker, _kind(host)),
        of_copies(host.copies, costs),
        of_lags(log, taken),
        of_refusals(host.refusals.most, refused_by(log)),
    )
    serve(registry, settings.metrics_port, settings.metrics_address, health)
