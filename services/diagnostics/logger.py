"""Logger: the messages of the product's processes, by structlog, which is loaded with the first message.

structlog loads rich, attrs and asyncio: 0.25 s of a core. A run in memory logs nothing below an error, so it rarely
needs them. services/diagnostics/service_log.py turns a message into a line.
"""

from __future__ import annotations

import logging
from typing import Any


class _Threshold:
    """Level below which messages are dropped before structlog is loaded."""

    level = logging.NOTSET


class Logger:
    """Writes messages; each method takes an event, in plain words, and fields, from any thread."""

    __slots__ = ("_loaded",)

    def __init__(self) -> None:
        self._loaded: Any = None

    def debug(self, event: str, **fields: Any) -> None:
        self._say(logging.DEBUG, "debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._say(logging.INFO, "info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._say(logging.WARNING, "warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._say(logging.ERROR, "error", event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Logs an error with the traceback of the exception that is being handled."""
        self._say(logging.ERROR, "exception", event, fields)

    def _say(self, level: int, method: str, event: str, fields: dict[str, Any]) -> None:
        if level < _Threshold.level:
            return
        if self._loaded is None:
            import structlog

            self._loaded = structlog.get_logger()
        getattr(self._loaded, method)(event, **fields)


def get_logger() -> Logger:
    """A logger; each module calls this once, at its top."""
    return Logger()


def drop_below(level: int) -> None:
    """Drops messages below a level of logging, such as logging.ERROR, in this process from now on."""
    _Threshold.level = level
