"""A Spark driver process: `python -m services.spark`, configured by HOLDFAST_* variables."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

import structlog

from schemas.topics import ClusterTopics, Partition
from services.kernel.versions import library_versions
from services.log.heartbeats import HeartbeatThread, Place
from services.log.opening import look_at_secret, open_log
from services.log.sealed import SealedLog
from services.log.service_log import open_service_log
from services.spark.host import Host, Identity
from services.spark.session import open_session
from services.spark.settings import SparkSettings

TURN_S = 0.05

_log = structlog.get_logger()


def _time_ms() -> int:
    return int(time.time() * 1000)


def main() -> int:
    """Runs until SIGTERM or SIGINT. Nothing needs saving: all that counts is in the log and in the checkpoints."""
    settings = SparkSettings()
    open_service_log(settings.log_level)
    stopping = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    topics = ClusterTopics(settings.cluster)
    log = open_log(settings.kafka, settings.cluster, settings.driver, report=True)
    log.create(topics.specs())
    look_at_secret(log, topics)
    scratch = settings.spark_dir / "scratch" / settings.driver
    host = Host(
        Identity(settings.driver, settings.incarnation, settings.zone),
        log,
        topics,
        bootstrap_servers=settings.kafka,
        open_session=lambda: open_session(settings, settings.driver, scratch),
        checkpoints=settings.spark_dir,
        scratch=scratch,
        allow=settings.allow,
        time_ms=_time_ms,
    )
    beats = HeartbeatThread(
        host,
        log.appender(f"heartbeat-{settings.driver}"),
        Partition(topics.heartbeats, 0),
        settings.heartbeat_interval_ms,
        library_versions(),
        _time_ms,
        Place(settings.host, settings.address),
        log.refusals if isinstance(log, SealedLog) else None,
    )
    beats.start()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    status = 0
    while not stopping:
        try:
            host.turn(TURN_S)
        except RuntimeError as error:
            _log.error("the driver ends", cause=str(error))
            status = 1
            break
    beats.stop()
    return status


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    # Queries, their JVM and client threads end with the process, which nobody waits for.
    os._exit(status)
