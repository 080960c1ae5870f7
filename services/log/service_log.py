"""Service log: what a process of ours says on its error stream. Saying something never ends the process.

The stream is a file on a disk that may be full; a line that cannot be written is dropped.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog


class Unfailing:
    """A text stream that drops what it cannot write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def open_service_log(level: str) -> None:
    """To be called once, first: from now on this process may print, log and warn. level: of our own messages."""
    keep_printing()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def keep_printing() -> None:
    """Makes both output streams unfailing."""
    sys.stdout, sys.stderr = cast(TextIO, Unfailing(sys.stdout)), cast(TextIO, Unfailing(sys.stderr))
