"""A worker process: `python -m holdfast.services.worker`, configured by HOLDFAST_* variables.

Loading takes a core for a second or more. It is done by a niced thread, for a worker is mostly started where another
copy has just taken over and needs that core. So on a full machine it takes ten seconds, and the supervisor keeps a
spare: a process that has loaded all, and becomes the next worker that ended.
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
    from holdfast.services.worker.process.spare import become

    if not become():
        return 0
    from holdfast.services.worker.process.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
