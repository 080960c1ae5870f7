"""A controller process: `python -m holdfast.services.controller`, configured by HOLDFAST_* variables."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.controller.app import TICK_S, Shell
from holdfast.services.controller.conductor import Conductor
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.effects import Means
from holdfast.services.controller.meters import of_jobs
from holdfast.services.controller.rooting import Rooting
from holdfast.services.controller.settings import ControllerSettings
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.diagnostics.service_log import close_service_log, open_service_log
from holdfast.services.hosting.plugins import from_folder
from holdfast.services.kernel import lazy_modules
from holdfast.services.kernel.operators.python import restrict
from holdfast.services.kernel.versions import versions
from holdfast.services.log.faust.agents import every, make_app
from holdfast.services.log.faust.catching_up import catch_up, continue_group, recent
from holdfast.services.log.faust.listening import listen
from holdfast.services.log.kafka.client_settings import client_settings
from holdfast.services.log.kafka.durability import Durability
from holdfast.services.log.kafka.rights import Rights
from holdfast.services.log.kafka.starting import await_answers
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.late.jobs import positions, read_jobs
from holdfast.services.log.opening import gate, look_at_secret, open_log, refused_by
from holdfast.services.log.protocol import Log
from holdfast.services.process.health import Health, answering, reading
from holdfast.services.process.metrics import of_process, of_refusals

HISTORY_MS = 60_000
"""Age of the oldest heartbeat that a starting controller reads. The silence of any other worker counts from the
start."""

STOP_S = 0.5
"""Longest wait for the app's end; the controller has nothing to save."""

_log = get_logger()


def steady_time_ms() -> Callable[[], int]:
    """Returns a clock: the time of day at the start, which advances evenly.

    A change of the system clock neither hurries nor delays a decision; published times keep the old clock.
    """
    began_s = time.time() - time.monotonic()
    return lambda: int((began_s + time.monotonic()) * 1000)


async def run(settings: ControllerSettings) -> int:
    """Runs until SIGTERM or SIGINT, or until the app crashes."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    restrict(settings.allow)
    from_folder(settings.allow)
    topics = ClusterTopics(settings.cluster)
    durability = Durability(settings.replication_factor, settings.min_insync_replicas)
    log = open_log(settings.kafka, settings.cluster, settings.controller, report=True)
    log.create(durability.of(topics.specs()))
    await_answers(log, topics)
    look_at_secret(log, topics)
    time_ms = steady_time_ms()
    rights = Rights(settings.kafka, client_settings(), settings.cluster) if settings.acls else None
    conductor = Conductor(
        log,
        topics,
        Controller(settings.controller, settings.heartbeat_interval_ms),
        time_ms,
        means=Means(versions(tuple(settings.allow)), settings.allow, durability, rights=rights),
        rooting=Rooting(
            settings.controller, topics, safe_s=settings.trim_after_s or None, kept=settings.keep_ended_jobs
        ),
    )
    kinds, group = conductor.topics(), f"{settings.cluster}-{settings.controller}"
    assigned, beats = Partition(topics.assignments, 0), Partition(topics.heartbeats, 0)
    standings = read_standings(log, assigned)
    jobs = read_jobs(log, topics)
    conductor.begin(standings, jobs)
    begins = positions(log, topics, jobs) | recent(log, beats, HISTORY_MS)
    begins[assigned] = standings.next
    backlog = Backlog.of(log, kinds, begins)
    shell = Shell(conductor, log, backlog, time_ms)
    health = _health(settings, conductor, log, Partition(topics.events, 0))
    if settings.metrics_port:
        _serve_metrics(settings, conductor, refused_by(log), health)
    nexts = catch_up(log, begins, shell.feed)
    backlog.trimmed(nexts)
    names = {partition: kind.value for partition, kind in kinds.items() if partition != beats}
    agents = continue_group(log, group, nexts, shell.read, shell.passed, [beats])
    app = make_app(group, settings.kafka, client_settings(), names, agents.read, agents.passed, gate(log))
    listen(app, log, "heartbeats", {beats: nexts[beats]}, agents.read, patient=True)

    async def tick() -> None:
        health.turned()
        await shell.tick()

    every(app, TICK_S, tick)
    app.task(shell.act)
    await app.start()
    _log.info("controller runs", kafka=settings.kafka, cluster=settings.cluster, name=settings.controller)
    waits = {asyncio.ensure_future(stopped.wait()), asyncio.ensure_future(app.wait_until_stopped())}
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if app.crash_reason is not None:
        _log.error("the app crashed", reason=repr(app.crash_reason))
    shell.close()
    await asyncio.wait({asyncio.ensure_future(app.stop())}, timeout=STOP_S)
    return 0 if stopped.is_set() else 1


def _health(settings: ControllerSettings, conductor: Conductor, log: Log, events: Partition) -> Health:
    checks = {"log": reading(lambda: conductor.core.acting), "kafka": answering(log, events)}
    return Health(settings.controller, "controller", checks)


def _serve_metrics(
    settings: ControllerSettings, conductor: Conductor, unsealed: Callable[[], dict[str, int]], health: Health
) -> None:
    from holdfast.services.process.metrics_server import registry_of, serve

    name = settings.controller
    refusals = of_refusals(conductor.refusals.most, unsealed)
    sources = of_process(name, "controller"), of_jobs(conductor.core), refusals
    serve(registry_of(*sources), settings.metrics_port, settings.metrics_address, health)


def main() -> int:
    lazy_modules.resolve()
    settings = ControllerSettings()
    open_service_log(settings.log_level, settings.log_format, controller=settings.controller)
    return asyncio.run(run(settings))


if __name__ == "__main__":
    status = main()
    close_service_log()
    # Client threads may wait for a broker that does not answer; the exit does not wait for these threads.
    os._exit(status)
