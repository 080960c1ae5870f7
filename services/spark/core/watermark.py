"""The watermark of a Spark operator without one of its own: the lowest watermark of its input partitions.

Source: PROTOCOL 3 and 12. A micro-batch reads all partitions up to their present ends, so a slow partition may be hours
of event time behind another one; a watermark from the newest row of all would make its rows late.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.schemas.commits import Heard
from holdfast.schemas.cuts import NO_WATERMARK

MAX_PARTITIONS = 128
"""Most partitions with a watermark of their own. In a topic with more, several share the highest of their
watermarks.
"""


def listen(before: Sequence[Heard], found: Sequence[int | None], now_ms: int) -> tuple[Heard, ...]:
    """The watermarks of the partitions after a micro-batch.

    Args:
        before: watermarks after the last one; empty before the first.
        found: watermark in this micro-batch, by partition, microseconds; None without a row.
        now_ms: time of the micro-batch.
    """
    known = before or [Heard(NO_WATERMARK, now_ms)] * len(found)
    return tuple(
        one if new is None else Heard(max(one.watermark, new), now_ms) for one, new in zip(known, found, strict=True)
    )


def lowest(heard: Sequence[Heard], now_ms: int, idle_after_s: Sequence[float | None]) -> int:
    """The watermark behind a micro-batch. A partition that was silent for its idle_after_s (None: never) does not
    count."""
    heard_of = [
        one.watermark
        for one, idle_s in zip(heard, idle_after_s, strict=True)
        if idle_s is None or now_ms - one.at_ms < idle_s * 1000
    ]
    return min(heard_of, default=NO_WATERMARK)
