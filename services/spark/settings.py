"""Settings of a Spark driver process, from HOLDFAST_* variables."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from holdfast.services.hosting.settings import HostSettings


class SparkSettings(HostSettings):
    """Settings of a driver, needed before it hosts its first operator."""

    driver: str = Field("spark-1", description="name of this driver, the same after a restart")
    spark_master: str = Field("", description="Spark's master; empty: local, with all cores of this machine")
    spark_jars: str = Field("", description="the connector's jars, comma separated")
    spark_memory: str = Field("1g", description="memory of the driver's JVM")
    spark_executor_memory: str = Field("1g", description="memory of each executor, with a master")
    spark_cores: int = Field(0, ge=0, le=10_000, description="cores taken of the master's; 0: all")
    spark_shuffle_partitions: int = Field(0, ge=0, le=10_000, description="0: one for each core of this machine")
    spark_keep_batches: int = Field(
        100, ge=2, le=100_000, description="micro-batches of a query that its checkpoint directory keeps, the newest"
    )
    spark_dir: Path = Field(
        Path(".holdfast/spark"), description="checkpoints of queries; for several machines a file system they share"
    )
