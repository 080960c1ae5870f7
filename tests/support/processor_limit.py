"""A limit on the processor time of a test: a machine that is busy with something else makes no test fail.

What runs in memory takes a number of turns, and these the processor time that they take; how long a test waits for a
processor says nothing of it. Processes that a test starts are not counted.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import pytest

LIMIT_S = 300.0


@contextmanager
def processor_limit(seconds: float) -> Iterator[None]:
    """Fails the test in the main thread once this process has taken so many seconds of a processor in it."""

    def over(_signal: int, _frame: FrameType | None) -> NoReturn:
        pytest.fail(f"it took over {seconds:g} s of processor time")

    former = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)
