"""A Spark driver's process, from its settings to its end."""

from __future__ import annotations

import shutil
import signal
import threading

from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.diagnostics.service_log import open_service_log
from holdfast.services.hosting.host_end import HostEnd
from holdfast.services.hosting.identity import Identity
from holdfast.services.hosting.plugins import from_folder
from holdfast.services.hosting.process import clock_ms, serve, time_ms
from holdfast.services.kernel import lazy_modules
from holdfast.services.log.door import open_cluster
from holdfast.services.spark.host import HOSTS, Host
from holdfast.services.spark.leftovers import Leftovers
from holdfast.services.spark.session import open_session
from holdfast.services.spark.settings import SparkSettings
from holdfast.services.spark.spark_engine import Session, SparkEngine, SparkRoom

EXECUTORS = (
    "executors write the state of queries: this driver and its executors need one file system for HOLDFAST_SPARK_DIR, "
    "even though drivers take over through Kafka"
)

_log = get_logger()


def executors_write(settings: SparkSettings) -> bool:
    """True if other processes write files of checkpoints that this driver sends."""
    master = settings.spark_master
    return settings.spark_checkpoints == "kafka" and bool(master) and not master.startswith("local")


def main() -> int:
    """Runs until SIGTERM, after which other drivers take over within a time limit, or until SIGINT. Returns the exit
    status."""
    lazy_modules.resolve()
    settings = SparkSettings()
    open_service_log(settings.log_level, settings.log_format, driver=settings.driver)
    from_folder(settings.allow)
    ending = HostEnd(settings.leave_s)
    signal.signal(signal.SIGTERM, ending.asked)
    signal.signal(signal.SIGINT, ending.asked)
    log, topics = open_cluster(settings.kafka, settings.cluster, settings.driver)
    if executors_write(settings):
        _log.warning(EXECUTORS, dir=str(settings.spark_dir))
    scratch = settings.spark_dir / "scratch" / settings.driver
    shutil.rmtree(scratch, ignore_errors=True)  # files of earlier incarnations
    session = Session(lambda: open_session(settings, settings.driver, scratch))
    news = threading.Event()
    room = SparkRoom(
        log=log,
        bootstrap_servers=settings.kafka,
        incarnation=settings.incarnation,
        checkpoints=settings.spark_dir,
        in_kafka=settings.spark_checkpoints == "kafka",
        scratch=scratch,
        allow=settings.allow,
        session=session.wait,
        wake=news.set,
    )

    def wait(seconds: float) -> None:
        news.wait(seconds)
        news.clear()

    host = Host(
        Identity(settings.driver, settings.incarnation, settings.zone, hosts=HOSTS),
        log,
        topics,
        engine=lambda plan, spark, of_job: SparkEngine(plan, spark, of_job, room),
        fault=session.fault,
        clock_ms=clock_ms,
        time_ms=time_ms,
        wait=wait,
    )
    leftovers = Leftovers(settings.spark_dir, host.over)

    def turn() -> None:
        host.turn()
        leftovers.look(clock_ms())

    return serve(host, turn, settings, log, ending, host.costs)
