"""A recovery replica as a Faust app: `python -m holdfast.services.recovery`, configured by HOLDFAST_* variables.

Source: PROTOCOL 1 and 8. Any number of replicas run at once; each follows only the records that it reads back as valid.
"""

from __future__ import annotations

import asyncio
import os
import time

from holdfast.schemas.topics import Partition
from holdfast.services.diagnostics.service_log import close_service_log, open_service_log
from holdfast.services.kernel import lazy_modules
from holdfast.services.kernel.errors import Retriable
from holdfast.services.kernel.liveness.grace import fixed_us
from holdfast.services.log.door import refused_by
from holdfast.services.log.faust.agents import every
from holdfast.services.log.faust.catching_up import recent
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.late.jobs import feed_kept
from holdfast.services.log.late.trims import trim
from holdfast.services.process.collector import Collector
from holdfast.services.process.decider import Decider
from holdfast.services.recovery.core.placement.reassignment import SHARES, Reassignment
from holdfast.services.recovery.replica import Replica
from holdfast.services.recovery.settings import RecoverySettings

TURN_S = 0.01
LOOK_AGAIN_S = 1.0
HISTORY_MS = 10_000
"""Age of the oldest heartbeat that a starting replica reads: a live worker has sent one since, and the silence of
others counts from the start."""
LEARNT_MS = 600_000
"""Age of the oldest takeover from which a starting replica corrects its estimates."""


async def run(settings: RecoverySettings) -> int:
    """Runs until SIGTERM or SIGINT, or until the app crashes."""
    decider = Decider("recovery", settings.recovery, settings)
    log, topics = decider.log, decider.topics
    kinds = {
        Partition(topics.plans, 0): "plans",  # before the commands that concern them
        Partition(topics.submit, 0): "submit",
        Partition(topics.assignments, 0): "assignments",
        Partition(topics.events, 0): "events",
    }
    begins = decider.begins(HISTORY_MS) | recent(log, Partition(topics.events, 0), LEARNT_MS)
    backlog = Backlog.of(log, begins)
    replica = Replica(
        settings.recovery, topics, log.appender(settings.recovery), backlog, beat_ms=settings.heartbeat_interval_ms,
        calm_ms=settings.balance_calm_s * 1000 or None, begun=decider.standings, unsealed=refused_by(log),
        safe_s=settings.trim_after_s or None, proof=settings.proof_batches,
        reassignment=Reassignment(SHARES[settings.reassign], settings.reassign_least_ms),
        fixed_grace_us=fixed_us(settings.grace),
    )  # fmt: skip
    health = decider.health(lambda: replica.core.known.acting)
    if settings.metrics_port:
        replica.meters().serve(settings.metrics_port, settings.metrics_address, health)
    feed_kept(topics, decider.jobs, replica.feed)
    app = decider.app(replica, kinds, begins, backlog)

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
    return await decider.run(app)


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
