"""Measures for how long one piece of work delays everything else of a copy."""

from __future__ import annotations

from collections.abc import Callable


class Steps:
    """The longest step since the last `restart`: on the clock, and in CPU time of the loop's thread.

    On shared CPUs the first shows how long a batch waited, the second how much of that was this copy's work.
    """

    def __init__(self, clock_ms: Callable[[], float], cpu_ms: Callable[[], float]) -> None:
        self._clock_ms = clock_ms
        self._cpu_ms = cpu_ms
        self.restart()

    def restart(self) -> None:
        self.longest_ms = self.longest_cpu_ms = 0.0

    def step(self) -> Step:
        """Times a `with` block, unless it raises."""
        return Step(self, self._clock_ms, self._cpu_ms)


class Step:
    """A step. It is a class because a generator would double the cost in each turn of a copy."""

    __slots__ = ("_began_cpu_ms", "_began_ms", "_clock_ms", "_cpu_ms", "_steps")

    def __init__(self, steps: Steps, clock_ms: Callable[[], float], cpu_ms: Callable[[], float]) -> None:
        self._steps = steps
        self._clock_ms = clock_ms
        self._cpu_ms = cpu_ms
        self._began_ms = self._began_cpu_ms = 0.0

    def __enter__(self) -> None:
        self._began_ms, self._began_cpu_ms = self._clock_ms(), self._cpu_ms()

    def __exit__(self, raised: type[BaseException] | None, *of: object) -> None:
        if raised is None:
            steps = self._steps
            steps.longest_ms = max(steps.longest_ms, self._clock_ms() - self._began_ms)
            steps.longest_cpu_ms = max(steps.longest_cpu_ms, self._cpu_ms() - self._began_cpu_ms)
