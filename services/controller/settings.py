"""Settings of a controller process, from HOLDFAST_* variables."""

from __future__ import annotations

import secrets

from pydantic import Field

from holdfast.services.diagnostics.settings import Variables
from holdfast.services.hosting.settings import PluginOptions
from holdfast.services.process.settings import DeciderSettings


class ControllerOptions(Variables):
    """Settings that a cluster hands on to its controller."""

    keep_ended_jobs: int = Field(50, ge=1, le=1000, description="jobs that are over and still listed, the newest ones")


class ControllerSettings(DeciderSettings, ControllerOptions, PluginOptions):
    """Settings of a controller, needed before it reads its first record."""

    controller: str = Field(
        default_factory=lambda: f"controller-{secrets.token_hex(4)}", description="of this process, never used twice"
    )
    acls: bool = Field(
        False,
        description="give each service its rights on the topics of a job with them; `holdfast acls` gives the others",
    )
