"""A worker process: `python -m holdfast.services.worker`, configured by HOLDFAST_* variables.

A worker is a fork of a process that has loaded everything (services/process/fork_server.py). Where it is not, loading
takes a second or more of CPU. A niced thread does it, because a worker is mostly started where another copy has just
taken over and needs that core.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

NICE = 19


def _load() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)  # on Linux that thread's alone
    import holdfast.services.worker.process.main  # noqa: F401


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the worker runs, nothing is to be handed over
    loading = threading.Thread(target=_load, name="loading")
    loading.start()
    loading.join()
    from holdfast.services.worker.process.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
