"""The watermark of a Spark operator that has none of its own: the lowest of its input partitions.

Source: PROTOCOL 3 and 12. A micro-batch takes what each partition holds by then, so one that was slow to be written may
come hours of event time behind another; the newest row of all would make its rows late.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.schemas.commits import Heard
from holdfast.schemas.cuts import NO_WATERMARK

MAX_PARTITIONS = 128
"""So many are distinguished; of a topic with more, several share a watermark, which is the highest of theirs."""


def listen(before: Sequence[Heard], found: Sequence[int | None], now_ms: int) -> tuple[Heard, ...]:
    """Watermark of each partition with a micro-batch.

    Args:
        before: with the last one; empty before the first.
        found: by partition, microseconds; None: it gave no row.
    """
    known = before or [Heard(NO_WATERMARK, now_ms)] * len(found)
    return tuple(
        one if new is None else Heard(max(one.watermark, new), now_ms) for one, new in zip(known, found, strict=True)
    )


def lowest(heard: Sequence[Heard], now_ms: int, idle_after_s: Sequence[float | None]) -> int:
    """The watermark behind a micro-batch: partitions that were silent for their idle_after_s (None: never) do not
    count.
    """
    heard_of = [
        one.watermark
        for one, idle_s in zip(heard, idle_after_s, strict=True)
        if idle_s is None or now_ms - one.at_ms < idle_s * 1000
    ]
    return min(heard_of, default=NO_WATERMARK)
