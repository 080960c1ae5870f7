"""Range of a join of streams: the distance in time of two rows, and the time for which each side waits for the other.

Source: JOBS "join", PROTOCOL 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.operator_settings import JoinSidesSettings

_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Range:
    """The range of the time difference of two rows: the right row is `least_us` to `most_us` later; negative:
    earlier.
    """

    least_us: int
    most_us: int

    @property
    def left_us(self) -> int:
        """The longest time that a left row may be behind the watermark and still match rows, in microseconds."""
        return max(self.most_us, 0)

    @property
    def right_us(self) -> int:
        """The longest time that a right row may be behind the watermark and still match rows, in microseconds."""
        return max(-self.least_us, 0)

    def open_us(self, slot: int, watermark: int) -> int:
        """The time before which rows of a side (0: left) are late, because they can match no row any more."""
        return minus(watermark, (self.left_us, self.right_us)[slot])


def minus(watermark: int, us: int) -> int:
    """The watermark minus `us`; END_WATERMARK at the end of the stream, when nothing is open."""
    if watermark == END_WATERMARK:
        return END_WATERMARK
    return NO_WATERMARK if watermark < NO_WATERMARK + us else watermark - us


def range_of(join: JoinSidesSettings) -> Range | None:
    """The range of a join; None if its right side is a table."""
    if join.between is not None:
        return Range(*map(_us, join.between))
    return None if join.within_s is None else Range(-_us(join.within_s), _us(join.within_s))


def _us(seconds: float) -> int:
    return round(seconds * _SECOND_US)
