"""The process behind `holdfast up --detach`: a supervisor, and the answer to the command that started it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

import msgspec

from holdfast.services.diagnostics.service_log import keep_printing
from holdfast.services.log.seal.private import keep_private
from holdfast.services.node.machine.cluster_files import Cluster
from holdfast.services.node.settings import Settings
from holdfast.services.node.start import EXPECTED, Stopped
from holdfast.services.node.supervisor import Supervisor


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to the command: the ready cluster, or the error."""

    cluster: Cluster | None = None
    error: str = ""


def stop_on_signals(supervisor: Supervisor) -> None:
    """SIGTERM, SIGINT and a closed terminal end it in good order."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        supervisor.ask_to_stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m holdfast.services.node.daemon")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--answer", type=int, required=True, help="descriptor for the answer")
    arguments = parser.parse_args()
    keep_private()
    keep_printing()
    supervisor = Supervisor(Settings(), arguments.workers)
    stop_on_signals(supervisor)
    try:
        supervisor.start()
    except Stopped:
        return 0
    except EXPECTED as error:
        _answer(arguments.answer, Answer(error=str(error) or type(error).__name__))
        return 1
    _answer(arguments.answer, Answer(supervisor.cluster))
    supervisor.run()
    supervisor.stop()
    return 0


def _answer(descriptor: int, answer: Answer) -> None:
    with suppress(OSError), os.fdopen(descriptor, "wb") as pipe:  # nobody may be reading any more
        pipe.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    sys.exit(main())
