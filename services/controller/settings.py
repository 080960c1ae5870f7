"""Settings of a controller process, from HOLDFAST_* variables."""

from __future__ import annotations

import secrets

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.log.metrics_settings import MetricsSettings


class ControllerSettings(MetricsSettings):
    """What a controller needs to know before it reads its first record."""

    model_config = SettingsConfigDict(env_prefix="HOLDFAST_", extra="ignore", env_ignore_empty=True)

    kafka: str = Field("localhost:9092", description="bootstrap servers")
    cluster: str = Field("holdfast", description="prefix of every topic")
    controller: str = Field(
        default_factory=lambda: f"controller-{secrets.token_hex(4)}", description="of this process, never used twice"
    )
    plugins: str = Field("", description="modules that python operators may come from, comma separated")
    replication_factor: int | None = Field(None, ge=1, le=15, description="replicas of each topic; null: the broker's")
    min_insync_replicas: int | None = Field(None, ge=1, le=15, description="replicas that must have a record")
    heartbeat_interval_ms: int = Field(100, ge=20, le=10_000, description="of the workers")
    log_level: str = Field("info")

    @property
    def allow(self) -> list[str]:
        """The modules that plugins names."""
        return [name.strip() for name in self.plugins.split(",") if name.strip()]
