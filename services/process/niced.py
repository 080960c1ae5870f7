"""Work at the lowest priority: a process that loads leaves the core to the copies that have just taken over.

A worker imports this file before it loads anything, so it imports only small modules.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

NICE = 19


def niced(work: Callable[[], object]) -> None:
    """Does the work in a thread with the lowest priority, and waits for its end."""

    def run() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)  # on Linux that thread's alone
        work()

    thread = threading.Thread(target=run, name="loading")
    thread.start()
    thread.join()
