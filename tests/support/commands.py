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

from services.kernel.errors import Retriable

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


def run(folder: Path, *words: str, status: int = 0, environment: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Runs a command on the cluster in a folder; what it printed, and what it told beside.

    Raises:
        Retriable: it ended with 1 because Kafka did not answer in time.
    """
    command = [str(HOLDFAST), *words, "--data-dir", str(folder)]
    whole = {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=whole)
    if done.returncode == 1 != status and UNANSWERED in " ".join(done.stderr.split()):
        raise Retriable(done.stderr)
    assert done.returncode == status, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def answered(ask: Callable[[], _T]) -> _T:
    """What is asked of a broker, which may be too busy to answer at once."""
    (found,) = until(lambda: (ask(),), "Kafka answers")
    answer: _T = found
    return answer
