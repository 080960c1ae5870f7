"""Settings that processes of several kinds have, each declared once, from HOLDFAST_* variables."""

from __future__ import annotations

from pydantic import Field

from holdfast.services.diagnostics.settings import LogSettings, Variables


class MetricsSettings(Variables):
    """Address at which a process answers Prometheus."""

    metrics_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="of http://<metrics_address>:<port>/metrics for Prometheus, /healthz and /readyz; 0: none",
    )
    metrics_address: str = Field(
        "127.0.0.1", description="address of this machine at which metrics and health are served"
    )


class HeartbeatOptions(Variables):
    """Rhythm of heartbeats, which hosts keep and deciders count with."""

    heartbeat_interval_ms: int = Field(100, ge=20, le=10_000, description="time between two heartbeats of a worker")


class TrimmingOptions(Variables):
    """Length of the logs of decisions."""

    trim_after_s: float = Field(
        600.0,
        ge=0,
        le=7 * 86_400,
        description="age at which snapshots of assignments and jobs take the place of the records below; 0: never",
    )


class ProcessSettings(LogSettings, MetricsSettings, HeartbeatOptions):
    """Settings of every process of a cluster, needed before it reads its first record."""

    kafka: str = Field("localhost:9092", description="bootstrap servers")
    cluster: str = Field("holdfast", description="prefix of every topic")


class DeciderSettings(ProcessSettings, TrimmingOptions):
    """Settings of a process that decides, and creates topics for that."""

    replication_factor: int | None = Field(None, ge=1, le=15, description="replicas of each topic; null: the broker's")
    min_insync_replicas: int | None = Field(None, ge=1, le=15, description="replicas that must have a record")
