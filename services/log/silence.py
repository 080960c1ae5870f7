"""Silence: the time that a reader has waited in its own calls without an answer.

A generator that compares a clock with a deadline counts the time that its caller takes between two records. The caller
may take any time, so only the waits themselves are measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Silence:
    """Seconds of waiting without an answer since the last answer, and seconds of waiting in all."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self.silent_s = 0.0
        """Seconds of waiting since the last answer."""
        self.waited_s = 0.0
        """Waited in all."""

    def during(self, wait: Callable[[], T], came: Callable[[T], object] = bool) -> T:
        """The answer of `wait`; a wait for which `came` is false adds to the silence, any other ends it."""
        begun_s = self._clock_s()
        found = wait()
        took_s = self._clock_s() - begun_s
        self.waited_s += took_s
        self.silent_s = 0.0 if came(found) else self.silent_s + took_s
        return found
