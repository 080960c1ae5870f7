"""Messages of the supervisor: lines in its log."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from holdfast.services.diagnostics.service_log import line, stamp

FORMAT = "HOLDFAST_LOG_FORMAT"


def say(text: str) -> None:
    """Prints to the supervisor's log; on a terminal the live summary shows the same."""
    if not sys.stderr.isatty():
        with suppress(OSError):  # stderr may be a file on a full disk
            print(_line(text), file=sys.stderr, flush=True)


def _line(text: str) -> str:
    if os.environ.get(FORMAT) == "json":
        return line("json", "info", text, {"process": "supervisor"})
    return f"{stamp()} {text}"
