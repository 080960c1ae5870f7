"""A controller process: `python -m holdfast.services.controller`, configured by HOLDFAST_* variables."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from holdfast.services.controller.app import TICK_S, Shell
from holdfast.services.controller.conductor import Conductor, Kind
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.effects import Means
from holdfast.services.controller.meters import of_jobs
from holdfast.services.controller.plan_snapshots import PlanSnapshots
from holdfast.services.controller.settings import ControllerSettings
from holdfast.services.diagnostics.service_log import close_service_log, open_service_log
from holdfast.services.hosting.plugins import from_folder
from holdfast.services.kernel import lazy_modules
from holdfast.services.kernel.operators.python import restrict
from holdfast.services.kernel.versions import versions
from holdfast.services.log.door import refused_by
from holdfast.services.log.faust.agents import every
from holdfast.services.log.kafka.client_settings import client_settings
from holdfast.services.log.kafka.rights import Rights
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.process.decider import Decider
from holdfast.services.process.health import Health
from holdfast.services.process.metrics import of_process, of_refusals

HISTORY_MS = 60_000
"""Age of the oldest heartbeat that a starting controller reads. The silence of any other worker counts from the
start."""


def steady_time_ms() -> Callable[[], int]:
    """Returns a clock: the time of day at the start, which advances evenly.

    A change of the system clock neither hurries nor delays a decision; published times keep the old clock.
    """
    began_s = time.time() - time.monotonic()
    return lambda: int((began_s + time.monotonic()) * 1000)


async def run(settings: ControllerSettings) -> int:
    """Runs until SIGTERM or SIGINT, or until the app crashes."""
    restrict(settings.allow)
    from_folder(settings.allow)
    decider = Decider("controller", settings.controller, settings)
    log, topics = decider.log, decider.topics
    time_ms = steady_time_ms()
    rights = Rights(settings.kafka, client_settings(), settings.cluster) if settings.acls else None
    conductor = Conductor(
        log,
        topics,
        Controller(settings.controller, settings.heartbeat_interval_ms),
        time_ms,
        means=Means(versions(tuple(settings.allow)), settings.allow, decider.durability, rights=rights),
        rooting=PlanSnapshots(
            settings.controller, topics, safe_s=settings.trim_after_s or None, kept=settings.keep_ended_jobs
        ),
    )
    kinds = conductor.topics()
    conductor.begin(decider.standings, decider.jobs)
    begins = decider.begins(HISTORY_MS)
    backlog = Backlog.of(log, begins)
    shell = Shell(conductor, log, backlog, time_ms)
    health = decider.health(lambda: conductor.core.acting)
    if settings.metrics_port:
        _serve_metrics(settings, conductor, refused_by(log), health)
    names = {partition: kind.value for partition, kind in kinds.items() if kind is not Kind.HEARTBEATS}
    app = decider.app(shell, names, begins, backlog, patient=True)

    async def tick() -> None:
        health.turned()
        await shell.tick()

    every(app, TICK_S, tick)
    app.task(shell.act)
    status = await decider.run(app)
    shell.close()
    return status


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
