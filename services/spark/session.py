"""The Spark session of a driver: local unless a master is named, with state in RocksDB and time in UTC.

Source: PROTOCOL 12: embedded by default, `HOLDFAST_SPARK_MASTER` for a cluster.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.services.spark import class_data
from holdfast.services.spark.frames import unchanged
from holdfast.services.spark.settings import SparkSettings

TASK_ATTEMPTS = 4
REAL_TIME_TASKS = 32
"""Additional tasks for real-time mode: each partition keeps a task that mostly waits, and other queries still need
tasks."""

POOL = "spark.scheduler.pool"

_SILENT = """\
rootLogger.level = off
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
"""
"""A log configuration. Spark ignores one without an appender and uses its own."""

_ROCKS = "spark.sql.streaming.stateStore.rocksdb"
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def open_session(
    settings: SparkSettings,
    name: str,
    scratch: Path,
    *,
    briefly: bool = False,
    quiet: bool = False,
    records: bool = False,
) -> SparkSession:
    """Opens the process's session, which takes some seconds for the JVM.

    Args:
        scratch: folder for Spark's files other than checkpoints.
        briefly: True if the session is needed for some seconds only; a JVM that compiles little starts in half the
            time.
        quiet: True to turn Spark's log off.
        records: as in `class_data`.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    scratch.mkdir(parents=True, exist_ok=True)
    cores = os.cpu_count() or 1
    master = settings.spark_master or f"local[{cores + REAL_TIME_TASKS},{TASK_ATTEMPTS}]"
    options: dict[str, str | int | bool] = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": settings.spark_shuffle_partitions or cores,
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        f"{_ROCKS}.changelogCheckpointing.enabled": True,
        f"{_ROCKS}.boundedMemoryUsage": True,
        f"{_ROCKS}.maxMemoryUsageMB": settings.spark_state_mb,
        "spark.sql.streaming.minBatchesToRetain": settings.spark_keep_batches,
        "spark.sql.execution.arrow.pyspark.enabled": True,
        "spark.driver.memory": settings.spark_memory,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.sql.adaptive.enabled": False,
        "spark.task.maxFailures": TASK_ATTEMPTS,
        "spark.scheduler.mode": "FAIR",
    }
    options["spark.driver.extraJavaOptions"] = _java_options(scratch, briefly, quiet, records)
    if settings.spark_jars:
        options["spark.jars"] = settings.spark_jars
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        options["spark.local.dir"] = str(scratch)
    else:
        options["spark.executor.memory"] = settings.spark_executor_memory
        if settings.spark_cores:
            options["spark.cores.max"] = settings.spark_cores
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in options.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF" if quiet else "ERROR")
    return session


def own_session(spark: SparkSession, conf: Mapping[str, str], pool: str = "") -> SparkSession:
    """A session for one operator with its settings, without views and settings of other operators.

    Args:
        pool: the scheduler's pool for jobs of this thread, and of the queries that it starts. The pools of a driver get
            equal numbers of tasks, whichever has more to do.
    """
    own = spark.newSession()
    if pool:
        own.sparkContext.setLocalProperty(POOL, pool)
    for setting, value in conf.items():
        own.conf.set(setting, value)
    return own


def start_python(spark: SparkSession) -> None:
    """Starts Python processes of Spark, one for each core, with the modules that write frames, before a query needs
    them. Blocks for seconds."""
    cores = os.cpu_count() or 1
    spark.range(0, cores, 1, cores).mapInArrow(unchanged, "id long").collect()


def _java_options(scratch: Path, briefly: bool, quiet: bool, records: bool) -> str:
    """Options of the JVM. Deep plans and long messages need a stack of more than a megabyte."""
    options = ["-Xss4m", *class_data.options(records)]
    if briefly:
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    if quiet:
        path = scratch / "log4j2.properties"
        path.write_text(_SILENT)
        options.append(f"-Dlog4j2.configurationFile={path}")
    return " ".join(options)
