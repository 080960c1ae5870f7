"""A worker process: `python -m holdfast.services.worker`, configured by HOLDFAST_* variables.

A worker is a fork of a process that has loaded everything (services/process/fork_server.py). Where it is not, loading
takes a second or more of CPU. A niced thread does it, because a worker is mostly started where another copy has just
taken over and needs that core.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module

from holdfast.services.process.niced import niced


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the worker runs, nothing is to be handed over
    niced(lambda: import_module("holdfast.services.worker.process.main"))
    from holdfast.services.worker.process.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
