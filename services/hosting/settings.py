"""Settings that every host has, from HOLDFAST_* variables."""

from __future__ import annotations

import secrets
import socket
import time

from pydantic import Field

from holdfast.services.diagnostics.settings import Variables
from holdfast.services.hosting.plugins import modules_of
from holdfast.services.process.settings import ProcessSettings


def new_incarnation(former: str = "") -> str:
    """A unique name of an incarnation that sorts after all earlier ones, and after `former` even if the clock was set
    back."""
    after = former.partition("-")[0]
    time_ms = max(int(time.time() * 1000), int(after) + 1 if after.isdigit() else 0)
    return f"{time_ms:013d}-{secrets.token_hex(3)}"


class PluginOptions(Variables):
    """Modules of users."""

    plugins: str = Field("", description="modules that operators may come from, comma separated")

    @property
    def allow(self) -> list[str]:
        """The modules in `plugins`, as a list."""
        return modules_of(self.plugins)


class HostOptions(Variables):
    """Settings that a cluster hands on to its workers and Spark drivers."""

    leave_s: float = Field(
        10.0,
        ge=0,
        le=3600,
        description="on SIGTERM a worker or Spark driver waits so long for others to take over; 0: it ends at once",
    )
    loop_patience_s: float = Field(
        5.0,
        ge=0.5,
        le=3600,
        description="a worker whose loop hangs for longer counts as silent, and ends after twice that; six times "
        "longer while a copy is loaded, restored or does its first batch; isolated code is ended after four fifths",
    )
    call_patience_s: float = Field(
        60.0,
        ge=1,
        le=86_400,
        description="a transaction, trim or restore that hangs for so long is given up",
    )
    memory_mb: int = Field(
        0,
        ge=0,
        description="resident memory of a worker, MiB, of which it alone takes about 200: near it the worker ends, "
        "before the kernel ends any process, and so does isolated code; 0: no limit",
    )


class HostSettings(ProcessSettings, HostOptions, PluginOptions):
    """Settings of a host, needed before it reads its first record."""

    incarnation: str = Field(
        default_factory=new_incarnation, description="of this process; its parent names it in exit notices"
    )
    zone: str = Field("", description="failure domain")
    host: str = Field("", description="of the supervisor; the names of its processes begin with it on a shared Kafka")
    address: str = Field(
        default_factory=socket.gethostname, description="machine and directory, to distinguish two of one name"
    )
