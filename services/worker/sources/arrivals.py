"""Measures how long the oldest record of a batch has waited, at the leader of source tasks.

Source: MECHANISMS R7; core/latency.py decides whether a stamp is plausible.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.services.worker.core.latency import arrived_ms

LONG_MS = 1_000
"""Waiting time after which records are reported before their cut."""


class Arrivals:
    """The arrivals of one unit's records.

    Attributes:
        slowest: (batch, arrival time of its oldest record) for the batch with the longest wait until its cut since the
            last `published`; the published pair before there is one.
    """

    def __init__(self, time_ms: Callable[[], int]) -> None:
        self._time_ms = time_ms
        self.slowest = (0, 0)
        self._waited_ms = -1
        self._cut: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def cut(self, task: str, time_ms: int) -> None:
        """Notes a valid cut with the time in it."""
        self._cut[task] = time_ms

    def batch(self, task: str, batch: int, stamp_ms: int | None) -> None:
        """Notes a proposed cut of the batch; `stamp_ms` is the stamp of the oldest record."""
        self._before[task] = since_ms = self._since(task, stamp_ms)
        self._tell(batch, since_ms)

    def waits(self, task: str, batch: int, stamp_ms: int | None) -> None:
        """Notes records that wait for a batch without a cut."""
        since_ms = self._since(task, stamp_ms)
        if self._time_ms() - since_ms >= LONG_MS:
            self._tell(batch, since_ms)

    def published(self) -> None:
        self._waited_ms = -1

    def _tell(self, batch: int, since_ms: int) -> None:
        waited_ms = self._time_ms() - since_ms
        if waited_ms > self._waited_ms and batch >= self.slowest[0]:
            self.slowest = (batch, since_ms)
            self._waited_ms = waited_ms

    def _since(self, task: str, stamp_ms: int | None) -> int:
        now_ms = self._time_ms()
        return arrived_ms(stamp_ms, self._before.get(task), self._cut.get(task, now_ms), now_ms)
