"""Settings that every host has, from HOLDFAST_* variables."""

from __future__ import annotations

import secrets
import socket
import time

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.log.metrics_settings import MetricsSettings


def new_incarnation(former: str = "") -> str:
    """Unique, and later ones sort later: behind the former one also when the clock was set back since."""
    after = former.partition("-")[0]
    time_ms = max(int(time.time() * 1000), int(after) + 1 if after.isdigit() else 0)
    return f"{time_ms:013d}-{secrets.token_hex(3)}"


class HostSettings(MetricsSettings):
    """What a host needs to know before it reads its first record."""

    model_config = SettingsConfigDict(env_prefix="HOLDFAST_", extra="ignore")

    kafka: str = Field("localhost:9092", description="bootstrap servers")
    cluster: str = Field("holdfast", description="prefix of every topic")
    incarnation: str = Field(
        default_factory=new_incarnation, description="of this process; its parent names it in exit notices"
    )
    zone: str = Field("", description="failure domain")
    host: str = Field("", description="of the supervisor; the names of its processes begin with it on a shared Kafka")
    address: str = Field(
        default_factory=socket.gethostname, description="machine and directory, to distinguish two of one name"
    )
    heartbeat_interval_ms: int = Field(100, ge=20, le=10_000)
    plugins: str = Field("", description="modules that operators may come from, comma separated")
    log_level: str = Field("info")

    @property
    def allow(self) -> list[str]:
        """The modules that plugins names."""
        return [name.strip() for name in self.plugins.split(",") if name.strip()]
