"""What a worker process does, from its settings to its end."""

from __future__ import annotations

import gc
import shutil
import signal
import sys
import time

from schemas.topics import ClusterTopics, Partition
from services.kernel.errors import WorkerUnfit
from services.kernel.operators.python import restrict
from services.kernel.versions import library_versions
from services.log.ending import Ending
from services.log.heartbeats import HeartbeatThread, Place
from services.log.opening import look_at_secret, open_log
from services.log.sealed import SealedLog
from services.log.service_log import open_service_log
from services.worker.host.blocking import BlockingThreads
from services.worker.process.collector import Collector
from services.worker.process.lifeline import hold
from services.worker.process.loop import Identity, Worker
from services.worker.process.rocks import RocksImage
from services.worker.process.settings import WorkerSettings

SWITCH_INTERVAL_S = 0.0005
"""Transactions run beside the loop: at Python's 5 ms each would wait for the loop that long, and the loop for it."""


def _clock_ms() -> float:
    return time.monotonic() * 1000


def _thread_cpu_ms() -> float:
    return time.thread_time() * 1000


def _time_ms() -> int:
    return int(time.time() * 1000)


def main() -> int:
    """Runs until it is told to stop, or until its disk fails. Nothing needs saving: all that counts is in the log.

    SIGTERM: its units move to other workers first. SIGINT, or a second SIGTERM: it ends at once, as when the whole
    cluster stops.
    """
    hold()
    settings = WorkerSettings()
    open_service_log(settings.log_level)
    restrict(settings.allow)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    collector = Collector()
    ending = Ending(settings.leave_s)
    signal.signal(signal.SIGTERM, ending.asked)
    signal.signal(signal.SIGINT, ending.asked)
    topics = ClusterTopics(settings.cluster)
    log = open_log(settings.kafka, settings.cluster, f"worker-{settings.worker}", report=True)
    log.create(topics.specs())
    look_at_secret(log, topics)
    root = settings.state_dir / settings.worker / settings.incarnation
    shutil.rmtree(root.parent, ignore_errors=True)  # images of earlier incarnations: all that counts is in the log
    worker = Worker(
        Identity(settings.worker, settings.incarnation, settings.zone, settings.slots),
        log,
        topics,
        clock_ms=_clock_ms,
        time_ms=_time_ms,
        versions=library_versions(),
        image=lambda name: RocksImage(root / name.replace("/", "_")),
        deliveries=BlockingThreads("deliveries"),
        restores=BlockingThreads("restores"),
        watch=BlockingThreads("asks", 1),
        cpu_ms=_thread_cpu_ms,
    )
    beats = HeartbeatThread(
        worker,
        log.appender(f"heartbeat-{settings.worker}"),
        Partition(topics.heartbeats, 0),
        settings.heartbeat_interval_ms,
        library_versions(),
        _time_ms,
        Place(settings.host, settings.address),
        log.refusals if isinstance(log, SealedLog) else None,
    )
    beats.start()
    status = 0
    try:
        while not ending.due(worker, beats):
            collector.turned(worker.turn())
    except WorkerUnfit as error:
        worker.stops(str(error))
        status = 1
    beats.stop()
    if worker.leaving:
        beats.say_farewell()
    worker.close()
    return status
