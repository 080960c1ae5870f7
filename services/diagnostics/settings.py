"""Settings of a process's log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings

Format = Literal["text", "json"]


class LogSettings(BaseSettings):
    """Level and format of a service's log."""

    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="how much services log")
    log_format: Format = Field("text", description="of what services log: text for people, or a JSON object a line")
