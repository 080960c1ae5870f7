"""Processes that a bench starts beside a cluster and that yield the processor to it.

Where Linux groups processes by session (autogroup), a niceness or a class counts within one session only, and the
cluster of a bench has a session of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

_SCRIPT = 'echo "$1" 2>/dev/null >/proc/self/autogroup; shift; exec "$@"'
LEAST = 19


def yielding(niceness: int, command: Sequence[str]) -> list[str]:
    """The command with its session as nice as that. It must be started in a session of its own."""
    idle = ("chrt", "--idle", "0") if niceness == LEAST else ()
    return ["sh", "-c", _SCRIPT, "sh", str(niceness), *idle, *command]
