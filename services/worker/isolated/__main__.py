"""A process that runs the code of one Python operator's task, started by a worker (code_process.py).

The process dies with its worker, ends when the worker closes its side, and ignores signals, because a worker that is
asked to stop still hands over its units.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import sys
import threading
import traceback
from contextlib import suppress

PR_SET_PDEATHSIG = 1
CRASHED_STATUS = 70
"""EX_SOFTWARE of sysexits.h."""


def _tie_to(parent: int) -> None:
    """Ends this process with the thread that started it, which lives as long as its process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _load(niceness: int) -> None:
    """Loads the libraries with low priority, since loading takes a second of CPU that other processes may need."""
    if sys.platform == "linux":
        os.setpriority(
            os.PRIO_PROCESS, threading.get_native_id(), niceness
        )  # the niceness is that of this thread alone
    import holdfast.services.worker.isolated.code_server  # noqa: F401


def main() -> None:
    parent, niceness, *descriptors = map(int, sys.argv[1:])
    _tie_to(parent)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # a handler, since SIG_IGN would be inherited
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    loading = threading.Thread(target=_load, args=(niceness,), name="loading")
    loading.start()
    loading.join()
    from holdfast.services.kernel import lazy_modules
    from holdfast.services.worker.isolated.channel import inherited
    from holdfast.services.worker.isolated.code_server import serve

    lazy_modules.resolve()
    serve(inherited(descriptors))


def _status() -> int:
    """Runs the process and returns its exit status. An exception that leaves the operator of the user ends the process,
    as `os._exit` would."""
    try:
        main()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return CRASHED_STATUS
    return 0


if __name__ == "__main__":
    status = _status()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)  # threads of the user's code may never end
