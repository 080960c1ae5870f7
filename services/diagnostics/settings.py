"""Settings of a process's log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

Format = Literal["text", "json"]
PREFIX = "HOLDFAST_"


class Variables(BaseSettings):
    """Settings that are read from HOLDFAST_* variables.

    Every class of settings derives from this one: of several bases pydantic takes the configuration of the last.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", env_ignore_empty=True)


class LogSettings(Variables):
    """Level and format of a service's log."""

    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="how much services log")
    log_format: Format = Field("text", description="of what services log: text for people, or a JSON object a line")
