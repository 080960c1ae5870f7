"""The main function of a worker process."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING

from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.diagnostics.service_log import open_service_log
from holdfast.services.hosting.blocking_calls import BlockingThreads
from holdfast.services.hosting.host_end import HostEnd
from holdfast.services.hosting.identity import Identity
from holdfast.services.hosting.plugins import from_folder
from holdfast.services.hosting.present_work import PresentWork
from holdfast.services.hosting.process import clock_ms, serve, time_ms
from holdfast.services.kernel import lazy_modules
from holdfast.services.kernel.operators.python import restrict
from holdfast.services.log.door import open_cluster
from holdfast.services.log.kafka.registry import of_this_process
from holdfast.services.log.seal.private import keep_private
from holdfast.services.process.collector import Collector
from holdfast.services.worker.process.lifeline import hold
from holdfast.services.worker.process.loop import Worker
from holdfast.services.worker.process.rocks import MIB, RocksImage, RocksMemory
from holdfast.services.worker.process.settings import WorkerSettings
from holdfast.services.worker.sinks import databases, folders

if TYPE_CHECKING:
    from holdfast.services.worker.host.spans import Spans

_log = get_logger()

SWITCH_INTERVAL_S = 0.0005
"""Python's thread switch interval. Transactions run beside the loop; at the default of 5 ms each would wait that long
for the loop, and the loop for it."""


def _thread_cpu_ms() -> float:
    return time.thread_time() * 1000


def main() -> int:
    """Runs the worker until it is asked to stop or its disk fails. Returns the exit status.

    After SIGTERM its units first move to other workers. After SIGINT, or a second SIGTERM, it ends at once, as when the
    whole cluster stops.
    """
    lazy_modules.resolve()
    doing = PresentWork(hold())
    settings = WorkerSettings()
    open_service_log(settings.log_level, settings.log_format, worker=settings.worker)
    restrict(settings.allow)
    from_folder(settings.allow)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    collector = Collector.of_process()
    ending = HostEnd(settings.leave_s)
    signal.signal(signal.SIGTERM, ending.asked)
    signal.signal(signal.SIGINT, ending.asked)
    log, topics = open_cluster(settings.kafka, settings.cluster, f"worker-{settings.worker}")
    keep_private()
    root = settings.state_dir / settings.worker / settings.incarnation
    shutil.rmtree(root.parent, ignore_errors=True)  # images of earlier incarnations: all that counts is in the log
    folders.allow(settings.files)
    databases.use(settings.databases)
    memory = RocksMemory(settings.state_cache_mb * MIB, settings.state_buffer_mb * MIB)
    pools = deliveries, restores, asks, answers = [
        BlockingThreads("deliveries", patience_s=settings.call_patience_s),
        BlockingThreads("restores", patience_s=settings.call_patience_s),
        BlockingThreads("asks", 2, settings.call_patience_s),
        BlockingThreads("answers", patience_s=settings.call_patience_s),
    ]
    worker = Worker(
        Identity(settings.worker, settings.incarnation, settings.zone, settings.slots, standbys=settings.standbys),
        log,
        topics,
        clock_ms=clock_ms,
        time_ms=time_ms,
        image=lambda name: RocksImage(root / name.replace("/", "_"), memory),
        deliveries=deliveries,
        restores=restores,
        watch=asks,
        answers=answers,
        cpu_ms=_thread_cpu_ms,
        doing=doing,
        isolation=settings.isolation,
        left=collector.left,
        spans=(spans := _spans(settings)),
        schemas=of_this_process(),
    )
    for pool in pools:
        pool.gave_up = worker.gives_up
    status = serve(worker, lambda: collector.turned(worker.turn()), settings, log, ending, worker.costs, worker.taken)
    if spans is not None:
        spans.close()
    return status


def _spans(settings: WorkerSettings) -> Spans | None:
    """Opens the spans if traces are on; None otherwise. Their library loads slowly and is an optional extra."""
    if not settings.traces:
        return None
    try:
        from holdfast.services.worker.host.spans import open_spans
    except ImportError as error:
        _log.warning("no traces are sent", cause=str(error), fix="pip install 'holdfast-streams[traces]'")
        return None
    return open_spans(settings.worker)
