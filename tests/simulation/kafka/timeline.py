"""The simulated clock: what is to happen when. Nothing waits; what falls on one moment happens in the order asked."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

Deed = Callable[[], None]

EPOCH_MS = 1_700_000_000_000
"""Time of day when a history begins."""


class Timeline:
    """Time in microseconds since the beginning."""

    def __init__(self) -> None:
        self.now_us = 0
        self._due: list[tuple[int, int, Deed]] = []
        self._asked = 0

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    @property
    def time_ms(self) -> int:
        """Time of day."""
        return EPOCH_MS + self.now_ms

    def after(self, delay_us: int, deed: Deed) -> None:
        """Does it so much later."""
        self.at(self.now_us + max(0, delay_us), deed)

    def at(self, when_us: int, deed: Deed) -> None:
        self._asked += 1
        heapq.heappush(self._due, (when_us, self._asked, deed))

    def look(self, done: Callable[[], bool], every_us: int, within_us: int) -> None:
        """Asks now and every so often, until it is done or the time is over."""
        until_us = self.now_us + within_us

        def ask() -> None:
            if not done() and self.now_us < until_us:
                self.after(every_us, ask)

        ask()

    def run(self, until_us: int, wrong: Sequence[str] = ()) -> None:
        """Lets time pass until then, or until something is wrong."""
        due = self._due
        while due and due[0][0] <= until_us:
            self.now_us, _, deed = heapq.heappop(due)
            deed()
            if wrong:
                return
        self.now_us = max(self.now_us, until_us)
