"""A recovery replica as a Faust app: `python -m holdfast.services.recovery`, configured by HOLDFAST_* variables.

Source: PROTOCOL 1 and 8. Any number of replicas run at once; each follows only the records that it reads back as valid.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time

from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.diagnostics.service_log import close_service_log, open_service_log
from holdfast.services.kernel import lazy_modules
from holdfast.services.kernel.errors import Retriable
from holdfast.services.kernel.liveness.grace import fixed_us
from holdfast.services.log.faust.agents import every, make_app
from holdfast.services.log.faust.catching_up import catch_up, continue_group, recent
from holdfast.services.log.faust.listening import listen
from holdfast.services.log.kafka.client_settings import client_settings
from holdfast.services.log.kafka.durability import Durability
from holdfast.services.log.kafka.starting import await_answers
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.late.jobs import feed_kept, positions, read_jobs
from holdfast.services.log.late.trimming import trim
from holdfast.services.log.opening import gate, look_at_secret, open_log, refused_by
from holdfast.services.process.collector import Collector
from holdfast.services.process.health import Health, answering, reading
from holdfast.services.recovery.core.placement.reassignment import SHARES, Reassignment
from holdfast.services.recovery.replica import Replica
from holdfast.services.recovery.settings import RecoverySettings

TURN_S = 0.01
LOOK_AGAIN_S = 1.0
STOP_S = 0.5
HISTORY_MS = 10_000
"""Age of the oldest heartbeat that a starting replica reads: a live worker has sent one since, and the silence of
others counts from the start."""
LEARNT_MS = 600_000
"""Age of the oldest takeover from which a starting replica corrects its estimates."""

_log = get_logger()


async def run(settings: RecoverySettings) -> int:
    """Runs until SIGTERM or SIGINT, or until the app crashes."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    topics = ClusterTopics(settings.cluster)
    log = open_log(settings.kafka, settings.cluster, settings.recovery, report=True)
    log.create(Durability(settings.replication_factor, settings.min_insync_replicas).of(topics.specs()))
    await_answers(log, topics)
    look_at_secret(log, topics)
    kinds = {
        Partition(topics.plans, 0): "plans",  # before the commands that concern them
        Partition(topics.submit, 0): "submit",
        Partition(topics.assignments, 0): "assignments",
        Partition(topics.events, 0): "events",
    }
    group = f"{settings.cluster}-{settings.recovery}"
    assigned, happened = Partition(topics.assignments, 0), Partition(topics.events, 0)
    beats = Partition(topics.heartbeats, 0)
    standings = read_standings(log, assigned)
    jobs = read_jobs(log, topics)
    begins = positions(log, topics, jobs) | recent(log, beats, HISTORY_MS)
    begins |= {assigned: standings.next} | recent(log, happened, LEARNT_MS)
    backlog = Backlog.of(log, [*kinds, beats], begins)
    replica = Replica(
        settings.recovery, topics, log.appender(settings.recovery), backlog, beat_ms=settings.heartbeat_interval_ms,
        calm_ms=settings.balance_calm_s * 1000 or None, begun=standings, unsealed=refused_by(log),
        safe_s=settings.trim_after_s or None, proof=settings.proof_batches,
        reassignment=Reassignment(SHARES[settings.reassign], settings.reassign_least_ms),
        fixed_grace_us=fixed_us(settings.grace),
    )  # fmt: skip
    checks = {"log": reading(lambda: replica.core.known.acting), "kafka": answering(log, happened)}
    health = Health(settings.recovery, "recovery", checks)
    if settings.metrics_port:
        replica.meters().serve(settings.metrics_port, settings.metrics_address, health)
    feed_kept(topics, jobs, replica.feed)
    nexts = catch_up(log, begins, replica.feed)
    backlog.trimmed(nexts)
    aged = beats, happened
    agents = continue_group(log, group, nexts, replica.read, replica.passed, aged)
    app = make_app(group, settings.kafka, client_settings(), kinds, agents.read, agents.passed, gate(log))
    listen(app, log, "heartbeats", {beats: nexts[beats]}, agents.read)

    collector = Collector.of_process()

    async def turn() -> None:
        health.turned()
        replica.echo()
        replica.turn()
        collector.turned(not replica.core.known.restful)

    async def look() -> None:
        if replica.behind:
            try:
                found = await asyncio.get_running_loop().run_in_executor(None, log.offsets, replica.behind, "start")
            except Retriable:
                return
            replica.trimmed(found)

    async def trim_logs() -> None:
        upto = replica.trims.due(time.monotonic_ns() // 1000)
        if upto is not None and not await asyncio.get_running_loop().run_in_executor(None, trim, log, upto):
            replica.trims.withdraw()

    every(app, TURN_S, turn)
    every(app, LOOK_AGAIN_S, look)
    every(app, LOOK_AGAIN_S, trim_logs)
    await app.start()
    _log.info("recovery runs", kafka=settings.kafka, cluster=settings.cluster, name=settings.recovery)
    waits = {asyncio.ensure_future(stopped.wait()), asyncio.ensure_future(app.wait_until_stopped())}
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if app.crash_reason is not None:
        _log.error("the app crashed", reason=repr(app.crash_reason))
    await asyncio.wait({asyncio.ensure_future(app.stop())}, timeout=STOP_S)
    return 0 if stopped.is_set() else 1


def main() -> int:
    lazy_modules.resolve()
    settings = RecoverySettings()
    open_service_log(settings.log_level, settings.log_format, recovery=settings.recovery)
    return asyncio.run(run(settings))


if __name__ == "__main__":
    status = main()
    close_service_log()
    # Client threads may wait for a broker that does not answer; the exit does not wait for these threads.
    os._exit(status)
