"""Settings of a Spark driver process, from HOLDFAST_* variables."""

from __future__ import annotations

import secrets
import socket
import time
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


def new_incarnation() -> str:
    """Unique, and later ones sort later."""
    return f"{int(time.time() * 1000):013d}-{secrets.token_hex(3)}"


class SparkSettings(BaseSettings):
    """What a driver needs to know before it hosts its first operator."""

    model_config = SettingsConfigDict(env_prefix="HOLDFAST_", extra="ignore")

    kafka: str = Field("localhost:9092", description="bootstrap servers")
    cluster: str = Field("holdfast", description="prefix of every topic")
    driver: str = Field("spark-1", description="name of this driver, the same after a restart")
    incarnation: str = Field(
        default_factory=new_incarnation, description="of this process; its parent names it in exit notices"
    )
    zone: str = Field("", description="failure domain")
    host: str = Field("", description="of the supervisor; the names of its processes begin with it on a shared Kafka")
    address: str = Field(
        default_factory=socket.gethostname, description="machine and directory, to tell two of one name apart"
    )
    heartbeat_interval_ms: int = Field(100, ge=20, le=10_000)
    spark_master: str = Field("", description="Spark's master; empty: local, with all cores of this machine")
    spark_jars: str = Field("", description="the connector's jars, comma separated")
    spark_memory: str = Field("1g", description="memory of the driver's JVM")
    spark_shuffle_partitions: int = Field(0, ge=0, le=10_000, description="0: one for each core of this machine")
    spark_dir: Path = Field(
        Path(".holdfast/spark"), description="checkpoints of queries; for several machines a file system they share"
    )
    plugins: str = Field("", description="modules that operators may come from, comma separated")
    log_level: str = Field("info")

    @property
    def allow(self) -> list[str]:
        """The modules that plugins names."""
        return [name.strip() for name in self.plugins.split(",") if name.strip()]
