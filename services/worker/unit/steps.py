"""For how long one piece of work kept a copy from everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Steps:
    """The longest step since the last `restart`: on the clock, and in CPU time of the loop's thread.

    Where the CPUs are shared the first says how long a batch waited, the second how much of that was our doing.
    """

    def __init__(self, clock_ms: Callable[[], float], cpu_ms: Callable[[], float]) -> None:
        self._clock_ms, self._cpu_ms = clock_ms, cpu_ms
        self.restart()

    def restart(self) -> None:
        self.longest_ms = self.longest_cpu_ms = 0.0

    @contextmanager
    def step(self) -> Iterator[None]:
        """Times what is done within."""
        began_ms, began_cpu_ms = self._clock_ms(), self._cpu_ms()
        yield
        self.longest_ms = max(self.longest_ms, self._clock_ms() - began_ms)
        self.longest_cpu_ms = max(self.longest_cpu_ms, self._cpu_ms() - began_cpu_ms)
