"""Python's garbage collection, between the turns of the loop and a little at a time.

Left to itself it goes by what was allocated and not yet freed. State that replaces state leaves that number as it is:
a pass, when it came, looked through all that had changed since the last, 11 ms for 100,000 keys in the middle of a
step. After every turn there is little to look through, and what was fetched is gone by then. A replica of recovery over
1,022 units stood still for 137 ms.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

MANY_OBJECTS = 5_000
"""After so many, a pass comes even if the loop has nothing to do: other threads allocate, too."""
MIDDLE_EVERY = 1_000
"""The middle generation is looked through once in so many passes."""
OLDEST_S, OLDEST_BUSY_S = 600.0, 3_600.0
"""The oldest, which has the state, at the first rest after so long, or without one: 20 ms for a million keys, in which
no heartbeat can be sent."""
LEFT_S, LEFT_BUSY_S = 1.0, 60.0
"""The same, after a copy was closed. Its state is let go at once; the rest refers to itself. Measured: 25 MB a job, and
now and then the threads and sockets of a producer."""


class Collector:
    """Takes over from the automatic collection for as long as the process lives.

    collect: as gc.collect. count: objects allocated since the last pass.
    """

    def __init__(
        self,
        collect: Callable[[int], object] = gc.collect,
        count: Callable[[], int] = lambda: gc.get_count()[0],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        gc.disable()
        self._collect, self._count, self._clock_s = collect, count, clock_s
        self._passes = 0
        self._whole_s = clock_s()
        self._left_s: float | None = None

    @classmethod
    def of_process(cls) -> Collector:
        """A collector that looks through nothing of what the start of the process has made."""
        gc.freeze()
        return cls()

    def left(self) -> None:
        """A copy was closed."""
        if self._left_s is None:
            self._left_s = self._clock_s()

    def turned(self, worked: bool) -> None:
        """After a turn of the loop; worked: it did something."""
        if self._whole_due(self._clock_s(), worked):
            self._collect(2)
            self._whole_s, self._left_s = self._clock_s(), None
        elif worked or self._count() >= MANY_OBJECTS:
            self._passes += 1
            self._collect(1 if self._passes % MIDDLE_EVERY == 0 else 0)

    def _whole_due(self, now_s: float, worked: bool) -> bool:
        if self._left_s is not None and now_s - self._left_s >= (LEFT_BUSY_S if worked else LEFT_S):
            return True
        return now_s - self._whole_s >= (OLDEST_BUSY_S if worked else OLDEST_S)
