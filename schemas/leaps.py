"""A record whose event time is far ahead of those before it: it moved the watermark, and made records late.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.schemas.decoders import Count, Micros


class Leap(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record whose event time is far ahead.

    by_us: lead over all event times before it in the partition.
    """

    topic: str
    partition: Count
    offset: Count
    time_us: Micros
    by_us: Micros


def widest(leaps: Iterable[Leap | None]) -> Leap | None:
    """Returns the leap with the largest lead; None if there is none."""
    return max((one for one in leaps if one is not None), key=lambda one: one.by_us, default=None)
