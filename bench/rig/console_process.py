"""A process of the console beside a cluster that serves none, or none of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.rig.followed import MeasureFailed
from bench.rig.yielding import yielding
from holdfast.services.console.installation import YIELDS

WAIT_S = 60.0


class ConsoleProcess:
    """A console in a process of its own.

    url: address with the token.
    folder: its data directory, with the token.
    """

    def __init__(self, folder: Path, kafka: str) -> None:
        command = [sys.executable, "-m", "holdfast.services.cli", "console", "--kafka", kafka, "--port", "0", "--json"]
        self._process = subprocess.Popen(
            yielding(YIELDS, [*command, "--data-dir", str(folder)]),  # as in the session of a cluster that serves one
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise MeasureFailed("the console has not started, see above")
        self.url: str = json.loads(line)["address"]
        self.pid = self._process.pid

    @property
    def base(self) -> str:
        """The address without the token, and without a slash at its end."""
        return self.url.partition("/?")[0]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(WAIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
