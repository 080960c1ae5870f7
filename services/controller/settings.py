"""Settings of a controller process, from HOLDFAST_* variables."""

from __future__ import annotations

import secrets

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from holdfast.services.diagnostics.settings import LogSettings
from holdfast.services.process.metrics_settings import MetricsSettings


class ControllerSettings(LogSettings, MetricsSettings):
    """Settings of a controller, needed before it reads its first record."""

    model_config = SettingsConfigDict(env_prefix="HOLDFAST_", extra="ignore", env_ignore_empty=True)

    kafka: str = Field("localhost:9092", description="bootstrap servers")
    cluster: str = Field("holdfast", description="prefix of every topic")
    controller: str = Field(
        default_factory=lambda: f"controller-{secrets.token_hex(4)}", description="of this process, never used twice"
    )
    plugins: str = Field("", description="modules that python operators may come from, comma separated")
    replication_factor: int | None = Field(None, ge=1, le=15, description="replicas of each topic; null: the broker's")
    min_insync_replicas: int | None = Field(None, ge=1, le=15, description="replicas that must have a record")
    acls: bool = Field(
        False,
        description="give each service its rights on the topics of a job with them; `holdfast acls` gives the others",
    )
    heartbeat_interval_ms: int = Field(100, ge=20, le=10_000, description="of the workers")
    trim_after_s: float = Field(
        600.0,
        ge=0,
        le=7 * 86_400,
        description="age at which snapshots of assignments and jobs take the place of the records below; 0: never",
    )
    keep_ended_jobs: int = Field(50, ge=1, le=1000, description="jobs that are over and still listed, the newest ones")

    @property
    def allow(self) -> list[str]:
        """The modules that plugins names."""
        return [name.strip() for name in self.plugins.split(",") if name.strip()]
