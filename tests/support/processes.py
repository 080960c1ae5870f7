"""Waiting for processes that are not our children, without polling."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Watched:
    """A process by its number; the descriptor stays its own even if the number is given to another."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def ended_within(self, seconds: float) -> bool:
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def kill(self) -> None:
        signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


@contextmanager
def parent_of_one(program: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Watched]]:
    """Run a Python program that starts a process and prints its number: the parent, and what it started."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            yield parent, Watched(int(parent.stdout.readline()))
        finally:
            parent.kill()
