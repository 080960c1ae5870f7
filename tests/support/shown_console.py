"""The console of a cluster in memory (`shown_cluster.py`), in a process of its own, for a browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.support.deadlines import HANG_S

ROOT = Path(__file__).parents[2]


class ShownConsole:
    """url: with the token; base: without it, and without a last slash.

    Args:
        options: `--read-only`, or the number of a port.
    """

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "tests.support.shown_cluster", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().split()
        if not line:
            raise RuntimeError("the console has not started: see its output above")
        self.url, self._folder = line[0], Path(line[1])
        self.base = self.url.partition("/?")[0]

    @property
    def port(self) -> str:
        return self.base.rpartition(":")[2]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(HANG_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ask(self, name: str) -> None:
        """Asks the cluster for something by a file of that name in its folder, such as `fail`."""
        self._folder.joinpath(name).touch()

    def __enter__(self) -> ShownConsole:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
