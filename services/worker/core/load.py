"""The share of a CPU that some work takes: the rate of a counter of milliseconds over the last seconds.

Source: MECHANISMS C5, l_u.
"""

from __future__ import annotations

LOAD_MS = 1_000.0


class Load:
    """The rate of one counter over the last one to two LOAD_MS, or over the time between calls if that is longer."""

    def __init__(self, now_ms: float, counted_ms: float) -> None:
        self._older = self._newer = (now_ms, counted_ms)

    def of(self, now_ms: float, counted_ms: float) -> float:
        """The load, from the present value of the counter."""
        if now_ms - self._newer[0] >= LOAD_MS:
            self._older = self._newer
            self._newer = (now_ms, counted_ms)
        since_ms, before_ms = self._older
        return (counted_ms - before_ms) / (now_ms - since_ms) if now_ms > since_ms else 0.0
