"""Memory of processes that is watched for long: whether it is flat."""

from __future__ import annotations

from bench.rig.figures import Figures, slope

SHARES = 12
"""Parts of the time, after each of which the memory is reported."""
WARM = 1 / 6
"""Share of the time that counts for no slope: libraries are loaded, and caches fill."""


class Memory:
    """Memory of a process over a number of minutes: after each twelfth of them, at the end, and its slope after
    warm-up.
    """

    def __init__(self, minutes: float, warm: float = WARM) -> None:
        self._warm = warm
        self._minutes = minutes
        self._each = minutes / SHARES
        self._due = self._each
        self._points: list[tuple[float, float]] = []
        self._found: Figures = {}

    def note(self, minute: float, mib: float) -> str:
        """A progress line at the end of each twelfth; otherwise empty."""
        self._points.append((minute, mib))
        if minute < self._due:
            return ""
        self._found[f"after_{self._due:.3g}_min_mib"] = round(mib, 1)
        self._due += self._each
        return f"  {mib:.1f} MiB after {minute:.1f} minutes"

    def figures(self) -> Figures:
        warm = [(minute / 60, mib) for minute, mib in self._points if minute > self._warm * self._minutes]
        return {**self._found, "last_mib": round(self._points[-1][1], 1), "slope_mib_per_h": round(slope(warm), 2)}
