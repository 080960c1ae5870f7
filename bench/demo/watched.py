"""Watching the demo: a console of its cluster, left open after the run."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from bench.rig.followed import MeasureFailed

END_S = 15.0


class Watched:
    """Console of a running cluster.

    say: prints a line for people.
    """

    def __init__(self, command: Sequence[str], say: Callable[[str], None]) -> None:
        self._command = command
        self._say = say
        self._process: subprocess.Popen[str] | None = None
        self._address = ""

    def begin(self) -> None:
        """Starts the console. Raises MeasureFailed if it does not start."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise MeasureFailed("holdfast console failed, see above")
        self._address = json.loads(said)["address"]
        self._say(f"[bold]Watch it: {self._address}[/bold]")

    def stay(self) -> None:
        """Returns at Ctrl-C."""
        self._say(f"The cluster stays until Ctrl-C, to look at its takeovers: {self._address}")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()

    def end(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
