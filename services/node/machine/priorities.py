"""Priorities: which threads of a child let others go first."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def lower(pid: int, thread: str, niceness: int) -> int:
    """Lowers the priority of each thread of a process whose name begins with `thread`; returns how many there are.

    Any user may do so for processes of their own, by Linux; elsewhere nothing is lowered.
    """
    found = 0
    for task in _tasks(pid):
        with suppress(OSError):  # it has ended meanwhile
            if (task / "comm").read_text().startswith(thread):
                os.setpriority(os.PRIO_PROCESS, int(task.name), niceness)
                found += 1
    return found


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []
