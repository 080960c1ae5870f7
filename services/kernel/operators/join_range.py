"""Range of a join of streams: the distance in time of two rows, and the time for which each side waits for the other.

Source: JOBS "join", PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK

_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Range:
    """A right row is from `least_us` to `most_us` later than its left row; negative = earlier."""

    least_us: int
    most_us: int

    @property
    def left_us(self) -> int:
        """Longest time that a left row may be behind the watermark and still meet rows."""
        return max(self.most_us, 0)

    @property
    def right_us(self) -> int:
        """The same of a right row."""
        return max(-self.least_us, 0)

    def open_us(self, slot: int, watermark: int) -> int:
        """Rows of a side, 0 the left one, that are before this time are late, and meet nothing any more."""
        return minus(watermark, (self.left_us, self.right_us)[slot])


def minus(watermark: int, us: int) -> int:
    """At the end of the stream nothing is open."""
    if watermark == END_WATERMARK:
        return END_WATERMARK
    return NO_WATERMARK if watermark < NO_WATERMARK + us else watermark - us


def range_of(join: Mapping[str, Any]) -> Range | None:
    """join: its section of the job file; plans of before know within_s alone. None: the right side is a table."""
    if (between := join.get("between")) is not None:
        return Range(_us(between[0]), _us(between[1]))
    within_s = join.get("within_s")
    return None if within_s is None else Range(-_us(within_s), _us(within_s))


def _us(seconds: float) -> int:
    return round(seconds * _SECOND_US)
