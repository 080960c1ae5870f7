"""What the supervisor says: a line in its log."""

from __future__ import annotations

import sys
import time
from contextlib import suppress


def say(text: str) -> None:
    """Into the supervisor's log; in the foreground the live summary says it."""
    if not sys.stderr.isatty():
        with suppress(OSError):  # it is a file on a disk that may be full
            print(time.strftime("%Y-%m-%dT%H:%M:%S"), text, file=sys.stderr, flush=True)
