"""Settings of Spark that a job may set for its Spark operators.

Source: PROTOCOL 12. Each operator has a session of its own on its driver, and the settings apply to that session. A
HOLDFAST_SPARK_* variable sets settings that a JVM or all sessions of a driver share. holdfast itself sets all settings
that affect the rows of a micro-batch, the decoding of records, or the storage of state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.suggestions import did_you_mean
from holdfast.services.planning.spark_inputs import operators

_ROCKS = "spark.sql.streaming.stateStore.rocksdb"
ALLOWED: Mapping[str, tuple[int, int] | None] = {
    "spark.sql.shuffle.partitions": (1, 10_000),
    "spark.sql.autoBroadcastJoinThreshold": (-1, 8 * 2**30),
    "spark.sql.files.maxPartitionBytes": (1, 2**40),
    "spark.sql.execution.arrow.maxRecordsPerBatch": (1, 10_000_000),
    "spark.sql.execution.pythonUDF.arrow.enabled": None,
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": (1, 10_000),
    f"{_ROCKS}.writeBufferSizeMB": (1, 65_536),
    f"{_ROCKS}.compactOnCommit": None,
}
"""Allowed settings, with the least and the largest integer; None stands for true or false."""
OF_DRIVER = {
    "spark.driver.memory": "HOLDFAST_SPARK_MEMORY",
    "spark.executor.memory": "HOLDFAST_SPARK_EXECUTOR_MEMORY",
    **dict.fromkeys(
        (f"{_ROCKS}.{name}" for name in ("maxMemoryUsageMB", "boundedMemoryUsage", "blockCacheSizeMB")),
        "HOLDFAST_SPARK_STATE_MB",
    ),
    "spark.cores.max": "HOLDFAST_SPARK_CORES",
    "spark.jars": "HOLDFAST_SPARK_JARS",
    "spark.master": "HOLDFAST_SPARK_MASTER",
    "spark.sql.streaming.minBatchesToRetain": "HOLDFAST_SPARK_KEEP_BATCHES",
}
"""Variables of the driver, by the setting of Spark that they replace. All jobs of a driver share such a setting."""


def problems(spec: JobSpec) -> Iterator[Problem]:
    """Problems of the settings of Spark operators, each with the settings or values that are allowed."""
    for name, operator in operators(spec).items():
        for setting, value in operator.conf.items():
            if problem := _wrong(setting, value):
                yield Problem(f"operators.{name}.conf.{setting}", *problem)


def _wrong(setting: str, value: object) -> tuple[str, str] | None:
    """The message and hint for a setting with this value; None if the value is allowed."""
    if variable := OF_DRIVER.get(setting):
        return "is shared by all jobs of a driver", f"set {variable} for the driver"
    if setting not in ALLOWED:
        near = did_you_mean(setting, ALLOWED)
        return "is no setting of Spark that a job may set", near or f"one of {', '.join(ALLOWED)}"
    bounds = ALLOWED[setting]
    if bounds is None:
        return None if isinstance(value, bool) else (f"is {value}, not true or false", "write true or false")
    least, most = bounds
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return None
    return f"is {value}, not an integer from {least} to {most}", "write such a number, without a unit"


def texts(conf: Mapping[str, object]) -> dict[str, str]:
    """The settings as the texts that Spark expects."""
    return {setting: str(value).lower() for setting, value in conf.items()}
