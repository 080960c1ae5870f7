"""Commands typed at a cluster, and waiting for what they bring about, on machines that have other things to do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from typer.testing import CliRunner

from holdfast.services.cli.commands import app
from holdfast.services.kernel.errors import Retriable

HOLDFAST = Path(sys.executable).parent / "holdfast"
DEADLINE_S = 120.0
"""For what must come; only a test that fails waits for so long."""
LOOK_AGAIN_S = 0.05
UNANSWERED = "Check that the broker runs"
_moment = threading.Event()
_T = TypeVar("_T")


def until(condition: Callable[[], Any], what: str, seconds: float = DEADLINE_S) -> Any:
    """Looks again and again until something is found. A broker too busy to answer is asked once more."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(Retriable):
            if found := condition():
                return found
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        _moment.wait(LOOK_AGAIN_S)


APART = {"up", "down", "replay", "try"}
"""Commands that start and end processes, or may start again: each runs in a process of its own, as when typed."""


def run(
    folder: Path, *words: str, status: int = 0, environment: Mapping[str, str] | None = None, apart: bool = False
) -> tuple[str, str]:
    """Runs a command on the cluster in a folder; what it printed, and what it told beside.

    Args:
        environment: beside that of the tests.
        apart: in a process of its own, which takes two seconds of a core; else in this one.

    Raises:
        Retriable: it ended with 1 because Kafka did not answer in time.
    """
    line = [*words, "--data-dir", str(folder)]
    if apart or environment or words[0] in APART:
        whole = {**os.environ, **(environment or {})}
        done = subprocess.run([str(HOLDFAST), *line], capture_output=True, text=True, check=False, env=whole)
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        found = CliRunner().invoke(app, line, prog_name="holdfast")
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        code, out, err = found.exit_code, found.stdout, found.stderr
    if code == 1 != status and UNANSWERED in " ".join(err.split()):
        raise Retriable(err)
    assert code == status, f"{words}: {out}{err}"
    return out, err


def answered(ask: Callable[[], _T]) -> _T:
    """Answer of a broker, which may be too busy to answer at once."""
    (found,) = until(lambda: (ask(),), "Kafka answers")
    answer: _T = found
    return answer
