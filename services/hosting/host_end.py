"""The end of a worker: at once, or after other workers have taken over its units.

A worker that is asked to leave reports this in its heartbeats, and recovery moves its units. The worker ends when it
leads no unit or when its time is over. In the second case other workers take over as after a crash.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Protocol


class Leaving(Protocol):
    """A worker or a Spark driver."""

    leaving: bool

    @property
    def leads(self) -> bool: ...


class Beating(Protocol):
    """The sender of its heartbeats."""

    def send_now(self) -> None: ...


class HostEnd:
    """Decides when a worker ends. Signals set it, and the loop checks it in every turn.

    Args:
        leave_s: time for others to take over, in seconds; 0 ends the worker at once.
    """

    def __init__(self, leave_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._leave_s = leave_s
        self._clock_s = clock_s
        self._until_s: float | None = None
        self._now = False

    def asked(self, number: int, frame: FrameType | None = None) -> None:
        """Handles a signal. The first SIGTERM asks the worker to leave; a second SIGTERM, or SIGINT, ends it at
        once.
        """
        if number != signal.SIGTERM or self._until_s is not None:
            self._now = True
        else:
            self._until_s = self._clock_s() + self._leave_s

    def due(self, worker: Leaving, beats: Beating) -> bool:
        """True if the worker ends before its next turn."""
        if self._now or self._until_s is None:
            return self._now
        if not worker.leaving:
            worker.leaving = True
            beats.send_now()
        return not worker.leads or self._clock_s() >= self._until_s
