"""Moments as user code has them, and as microseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LAST_US = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND


def micros(when: int | datetime) -> int:
    """A moment in microseconds since 1970; a time without a zone counts as UTC."""
    if isinstance(when, datetime):
        return (when.replace(tzinfo=when.tzinfo or UTC) - EPOCH) // _MICROSECOND
    if isinstance(when, bool) or not isinstance(when, int):
        raise TypeError(f"a time is a datetime, or an int of microseconds since 1970, not {when!r}")
    return when


def moment(time_us: int) -> datetime:
    """The moment of a number of microseconds since 1970; the first or last moment of the calendar for a number outside
    it.
    """
    return EPOCH + timedelta(microseconds=min(max(time_us, _FIRST_US), _LAST_US))
