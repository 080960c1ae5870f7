"""Settings of a worker process, from HOLDFAST_* variables."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from holdfast.services.diagnostics.settings import Variables
from holdfast.services.hosting.settings import HostSettings
from holdfast.services.worker.isolated.isolation import Isolation

SHORTER = 0.8
"""The patience with isolated code as a share of the worker's own. A process that hangs is ended before the worker's
loop, which waits for it, seems to hang."""


class WorkerOptions(Variables):
    """Settings that a cluster hands on to its workers."""

    slots: int = Field(8, ge=1, le=1024, description="units a worker takes before it counts as full")
    standbys: int = Field(
        -1,
        ge=-1,
        le=1024,
        description="standbys of other workers' units that a worker takes at most, more important ones first; -1: as "
        "many as are given",
    )
    traces: bool = Field(
        False,
        description="workers send a span of each unit and batch by OpenTelemetry; OTEL_EXPORTER_OTLP_ENDPOINT and the "
        "like say where to",
    )
    state_cache_mb: int = Field(
        64, ge=1, le=1024 * 1024, description="memory of a worker for what it has read of its images on disk, MiB"
    )
    state_buffer_mb: int = Field(
        64, ge=1, le=1024 * 1024, description="memory of a worker for what is not yet in its images on disk, MiB"
    )
    files: str = Field("", description="folders in which jobs may write files, separated by colons; empty: none")
    databases: str = Field(
        "", description="file with a line for each database that jobs may write, name = URL (TOML); empty: none"
    )


class WorkerSettings(HostSettings, WorkerOptions):
    """Settings of a worker, needed before it reads its first record."""

    worker: str = Field("worker-1", description="name of this worker, the same after a restart")
    state_dir: Path = Field(
        Path(".holdfast/state"), description="where state images lie; rebuilt from the checkpoint log"
    )

    @property
    def isolation(self) -> Isolation:
        """The rules for isolated code."""
        return Isolation(
            allow=tuple(self.allow),
            patience_s=SHORTER * self.loop_patience_s,
            loading_s=SHORTER * self.call_patience_s,
            memory_mb=self.memory_mb,
        )
