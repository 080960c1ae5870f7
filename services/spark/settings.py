"""Settings of a Spark driver process, from HOLDFAST_* variables."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from holdfast.services.diagnostics.settings import Variables
from holdfast.services.hosting.settings import HostSettings


class SparkOptions(Variables):
    """Settings that a cluster hands on to its Spark drivers."""

    spark_master: str = Field("", description="Spark's master; empty: local, with all cores of this machine")
    spark_memory: str = Field("1g", description="memory of a Spark driver's JVM")
    spark_state_mb: int = Field(
        512,
        ge=16,
        le=1_048_576,
        description="MiB outside Java that RocksDB takes for the state of all queries of a Spark driver or executor",
    )
    spark_executor_memory: str = Field("1g", description="memory of each of its executors, with a Spark master")
    spark_cores: int = Field(
        0,
        ge=0,
        le=10_000,
        description="cores that a Spark driver takes of the master's; 0: all, which leaves no standby any",
    )
    spark_keep_batches: int = Field(
        100, ge=2, le=100_000, description="micro-batches of a query that its checkpoint directory keeps, the newest"
    )
    spark_checkpoints: Literal["shared", "kafka"] = Field(
        "shared",
        description="how a Spark driver takes over a query's checkpoint: from a file system that all drivers share, or "
        "through Kafka",
    )


class SparkSettings(HostSettings, SparkOptions):
    """Settings of a driver, needed before it hosts its first operator."""

    driver: str = Field("spark-1", description="name of this driver, the same after a restart")
    spark_jars: str = Field("", description="the connector's jars, comma separated")
    spark_shuffle_partitions: int = Field(0, ge=0, le=10_000, description="0: one for each core of this machine")
    spark_dir: Path = Field(
        Path(".holdfast/spark"),
        description="checkpoints of queries; with `shared` checkpoints, on a file system that all drivers share",
    )
