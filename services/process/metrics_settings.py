"""Settings of a process that can serve metrics."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class MetricsSettings(BaseSettings):
    """Address at which the process serves metrics to Prometheus."""

    metrics_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="of http://<metrics_address>:<port>/metrics for Prometheus, /healthz and /readyz; 0: none",
    )
    metrics_address: str = Field(
        "127.0.0.1", description="address of this machine at which metrics and health are served"
    )
