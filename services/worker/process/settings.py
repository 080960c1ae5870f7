"""Settings of a worker process, from HOLDFAST_* variables."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from services.hosting.settings import HostSettings


class WorkerSettings(HostSettings):
    """What a worker needs to know before it reads its first record."""

    worker: str = Field("worker-1", description="name of this worker, the same after a restart")
    slots: int = Field(8, ge=1, le=1024, description="units this worker takes before it counts as full")
    leave_s: float = Field(
        10.0,
        ge=0,
        le=3600,
        description="on SIGTERM a worker waits so long for others to take over its units; 0: it ends at once",
    )
    state_dir: Path = Field(
        Path(".holdfast/state"), description="where state images lie; rebuilt from the checkpoint log"
    )
