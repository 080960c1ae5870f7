"""Since when the oldest record of a batch waited, as the leader of source tasks sees it.

Source: MECHANISMS R7; when a stamp is believed is in core/latency.py.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.services.worker.core.latency import arrived_ms

LONG_MS = 1_000
"""Records that wait for so long without a cut are reported before it."""


class Arrivals:
    """Arrivals of one unit's records.

    slowest: (batch, since when the oldest of its records waited) of the batch whose record has waited longest until its
        cut, among those since the last `published`; before there is one, the published one.
    """

    def __init__(self, time_ms: Callable[[], int]) -> None:
        self._time_ms, self.slowest = time_ms, (0, 0)
        self._waited_ms = -1
        self._cut: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def cut(self, task: str, time_ms: int) -> None:
        """A valid cut, as its author has dated it."""
        self._cut[task] = time_ms

    def batch(self, task: str, batch: int, stamp_ms: int | None) -> None:
        """A cut of the batch is proposed. stamp_ms: of the oldest record."""
        self._before[task] = since_ms = self._since(task, stamp_ms)
        self._tell(batch, since_ms)

    def waits(self, task: str, batch: int, stamp_ms: int | None) -> None:
        """Records wait for the batch, which is not cut."""
        since_ms = self._since(task, stamp_ms)
        if self._time_ms() - since_ms >= LONG_MS:
            self._tell(batch, since_ms)

    def published(self) -> None:
        self._waited_ms = -1

    def _tell(self, batch: int, since_ms: int) -> None:
        waited_ms = self._time_ms() - since_ms
        if waited_ms > self._waited_ms and batch >= self.slowest[0]:
            self.slowest, self._waited_ms = (batch, since_ms), waited_ms

    def _since(self, task: str, stamp_ms: int | None) -> int:
        now_ms = self._time_ms()
        return arrived_ms(stamp_ms, self._before.get(task), self._cut.get(task, now_ms), now_ms)
