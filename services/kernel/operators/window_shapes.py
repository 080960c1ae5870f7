"""The shapes of windows in a job file, and their times.

A window is made of panes, which do not overlap: a row is counted in one pane, and a pane in each window that contains
it. Source: JOBS "window", PROTOCOL 3 (late).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Protocol

import numpy as np

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.operator_settings import WindowSettings
from holdfast.services.kernel.operators.calendar_windows import Calendar
from holdfast.services.kernel.operators.kind import HeldInput

_SECOND_US = 1_000_000


class Shape(Protocol):
    """A shape. All times are microseconds."""

    def closed_us(self, watermark: int) -> int:
        """The time before which rows are late, because all their windows have closed."""
        ...

    @property
    def horizon_us(self) -> int | None:
        """The longest time behind the watermark at which a record can still count; None: no limit."""
        ...

    def held(self, newest_us: int) -> HeldInput: ...


class Grid(Shape, Protocol):
    """Windows with bounds that depend on no row. A pane is named by its begin, a window by its end."""

    def panes(self, times: np.ndarray) -> np.ndarray:
        """The pane of each row."""
        ...

    def last_end(self, pane: int) -> int:
        """The end of the last window that holds the pane."""
        ...

    def ends(self, pane: int, after: int, until: int) -> Iterable[int]:
        """Ends in (after, until] of the windows that hold the pane."""
        ...

    def panes_of(self, end: int) -> Sequence[int]:
        """The panes of a window, in order."""
        ...

    def begin(self, end: int) -> int:
        """Beginning of a window."""
        ...

    def any_end(self, after: int, until: int) -> bool:
        """True if a window may end in (after, until]; if not, no window closes."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Windows of one size: tumbling, or hopping by less than their size. One window begins `offset_us` after 1970."""

    size_us: int
    slide_us: int
    offset_us: int = 0

    def closed_us(self, watermark: int) -> int:
        """The time before which all windows of a row have closed; the last window of a later row is still open."""
        if watermark < NO_WATERMARK + self.size_us + abs(self.offset_us):
            return NO_WATERMARK
        return self._begun(watermark - self.size_us) + self.slide_us

    @property
    def horizon_us(self) -> int:
        return self.size_us

    def held(self, newest_us: int) -> HeldInput:
        """The rows held: the last window of the newest row ends there."""
        return HeldInput.open_until(self.last_end(newest_us))

    def panes(self, times: np.ndarray) -> np.ndarray:
        return _floored(times, self.offset_us, self._width)

    def last_end(self, pane: int) -> int:
        return self._begun(pane) + self.size_us

    def ends(self, pane: int, after: int, until: int) -> range:
        """The latest first."""
        last = self.last_end(pane)
        return range(
            last - max(0, -((until - last) // self.slide_us)) * self.slide_us, max(pane, after), -self.slide_us
        )

    def panes_of(self, end: int) -> range:
        return range(end - self.size_us, end, self._width)

    def begin(self, end: int) -> int:
        return end - self.size_us

    def any_end(self, after: int, until: int) -> bool:
        return self._begun(until - self.size_us) > self._begun(after - self.size_us)

    @property
    def _width(self) -> int:
        return gcd(self.size_us, self.slide_us)

    def _begun(self, time: int) -> int:
        """Beginning of the newest window."""
        return time - (time - self.offset_us) % self.slide_us


@dataclass(frozen=True, slots=True)
class Cumulative:
    """Windows with a common begin, each a step longer than the one before, up to a size."""

    size_us: int
    step_us: int
    offset_us: int = 0

    def closed_us(self, watermark: int) -> int:
        """The time before which rows are late: the longest window of a row is the last that counts it."""
        return Fixed(self.size_us, self.size_us, self.offset_us).closed_us(watermark)

    @property
    def horizon_us(self) -> int:
        return self.size_us

    def held(self, newest_us: int) -> HeldInput:
        return HeldInput.open_until(self.last_end(newest_us))

    def panes(self, times: np.ndarray) -> np.ndarray:
        return _floored(times, self.offset_us, self.step_us)

    def last_end(self, pane: int) -> int:
        return pane - (pane - self.offset_us) % self.size_us + self.size_us

    def ends(self, pane: int, after: int, until: int) -> range:
        first = max(pane, after) - (max(pane, after) - self.offset_us) % self.step_us + self.step_us
        return range(first, min(self.last_end(pane), until) + 1, self.step_us)

    def panes_of(self, end: int) -> range:
        return range(self.begin(end), end, self.step_us)

    def begin(self, end: int) -> int:
        return self.last_end(end - 1) - self.size_us

    def any_end(self, after: int, until: int) -> bool:
        return (until - self.offset_us) // self.step_us > (after - self.offset_us) // self.step_us


@dataclass(frozen=True, slots=True)
class Session:
    """Rows of a key that are less than `gap_us` apart."""

    gap_us: int

    def closed_us(self, watermark: int) -> int:
        """The time before which a row would be an ended session of its own: a session ends `gap_us` after its last
        row.
        """
        return NO_WATERMARK if watermark < NO_WATERMARK + self.gap_us else watermark - self.gap_us + 1

    @property
    def horizon_us(self) -> None:
        """No limit (None): a session may never end, and its first row counts until then."""

    def held(self, newest_us: int) -> HeldInput:
        return HeldInput.open_until(newest_us + self.gap_us)


@lru_cache(256)
def shape_of(window: WindowSettings) -> Fixed | Cumulative | Calendar | Session:
    """The shape of a window, cached because it is requested often."""
    offset = _us(window.offset_s)
    if window.gap_s is not None:
        return Session(_us(window.gap_s))
    if window.calendar:
        return Calendar(window.calendar, window.zone or "UTC", offset)
    assert window.size_s is not None, "a window has a length"
    size = _us(window.size_s)
    if window.step_s is not None:
        return Cumulative(size, _us(window.step_s), offset)
    return Fixed(size, size if window.slide_s is None else _us(window.slide_s), offset)


def _floored(times: np.ndarray, offset_us: int, width: int) -> np.ndarray:
    """The begin of the pane of each time, for panes of one width that begin `offset_us` after 1970."""
    found: np.ndarray = times - (times - offset_us) % width
    return found


def _us(seconds: float) -> int:
    return round(seconds * _SECOND_US)
