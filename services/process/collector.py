"""Python's garbage collection, between the turns of the loop and a little at a time.

The automatic collection counts objects allocated and not yet freed. State that replaces state leaves that number
unchanged: a pass, when it came, examined all objects changed since the last one, 11 ms for 100,000 keys in the middle
of a step. After every turn a pass has little to examine, and fetched records are freed by then. Without it, a replica
of recovery over 1,022 units stopped for 137 ms.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

MANY_OBJECTS = 5_000
"""Number of new objects after which a pass comes even if the loop is idle: other threads allocate, too."""
MIDDLE_EVERY = 1_000
"""Number of passes after which one includes the middle generation."""
OLDEST_S, OLDEST_BUSY_S = 600.0, 3_600.0
"""Seconds after which the oldest generation, which has the state, is collected at the next rest (OLDEST_S), or without
a rest: 20 ms for a million keys, during which no heartbeat can be sent.
"""
LEFT_S, LEFT_BUSY_S = 1.0, 60.0
"""The two limits in seconds after a copy was closed. Its state is freed at once; the rest is in reference cycles.
Measured: 25 MB a job, and sometimes the threads and sockets of a producer.
"""


class Collector:
    """Replaces the automatic collection for the life of the process.

    collect: gc.collect, or a replacement.
    count: returns the number of objects allocated since the last pass.
    """

    def __init__(
        self,
        collect: Callable[[int], object] = gc.collect,
        count: Callable[[], int] = lambda: gc.get_count()[0],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        gc.disable()
        self._collect = collect
        self._count = count
        self._clock_s = clock_s
        self._passes = 0
        self._whole_s = clock_s()
        self._left_s: float | None = None

    @classmethod
    def of_process(cls) -> Collector:
        """A collector that never examines the objects made at the start of the process."""
        gc.freeze()
        return cls()

    def left(self) -> None:
        """Notes that a copy was closed."""
        if self._left_s is None:
            self._left_s = self._clock_s()

    def turned(self, worked: bool) -> None:
        """Runs the collection that is due after a turn of the loop.

        worked: true if the turn did any work.
        """
        if self._whole_due(self._clock_s(), worked):
            self._collect(2)
            self._whole_s = self._clock_s()
            self._left_s = None
        elif worked or self._count() >= MANY_OBJECTS:
            self._passes += 1
            self._collect(1 if self._passes % MIDDLE_EVERY == 0 else 0)

    def _whole_due(self, now_s: float, worked: bool) -> bool:
        if self._left_s is not None and now_s - self._left_s >= (LEFT_BUSY_S if worked else LEFT_S):
            return True
        return now_s - self._whole_s >= (OLDEST_BUSY_S if worked else OLDEST_S)
