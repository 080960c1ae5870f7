"""The shapes of windows that a job file may ask for, and what each says of time.

Source: JOBS "window", PROTOCOL 3 (late).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.cuts import NO_WATERMARK
from services.kernel.operators.kind import Held

_SECOND_US = 1_000_000


class Shape(Protocol):
    """One shape. All times are microseconds."""

    def closed_us(self, watermark: int) -> int:
        """Rows before this time are late: all that they could count in has closed."""
        ...

    @property
    def horizon_us(self) -> int | None:
        """How far behind the watermark a record can still count; None: there is no bound."""
        ...

    def held(self, newest_us: int) -> Held: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Windows of one size, aligned to 1970: tumbling, or hopping by less than their size."""

    size_us: int
    slide_us: int

    def closed_us(self, watermark: int) -> int:
        """Every window of a row before this time has closed; of a later row the last window is still open."""
        if watermark < NO_WATERMARK + self.size_us:
            return NO_WATERMARK
        return (watermark - self.size_us) // self.slide_us * self.slide_us + self.slide_us

    @property
    def horizon_us(self) -> int:
        return self.size_us

    def held(self, newest_us: int) -> Held:
        """The last window of the newest row ends there."""
        end = newest_us // self.slide_us * self.slide_us + self.size_us
        return Held(end, end - 1)


@dataclass(frozen=True, slots=True)
class Session:
    """Rows of a key that are less than `gap_us` apart."""

    gap_us: int

    def closed_us(self, watermark: int) -> int:
        """A session ends `gap_us` after its last row. A row before this time would be a session that has ended."""
        return NO_WATERMARK if watermark < NO_WATERMARK + self.gap_us else watermark - self.gap_us + 1

    @property
    def horizon_us(self) -> None:
        """A session may never end, and its first row counts as long."""

    def held(self, newest_us: int) -> Held:
        end = newest_us + self.gap_us
        return Held(end, end - 1)


def shape_of(window: Mapping[str, Any]) -> Fixed | Session:
    """window: the section of the job file, defaults filled in. Plans of before know no gap."""
    if window.get("gap_s") is not None:
        return Session(round(window["gap_s"] * _SECOND_US))
    size_s = window["size_s"]
    return Fixed(round(size_s * _SECOND_US), round((window.get("slide_s") or size_s) * _SECOND_US))
