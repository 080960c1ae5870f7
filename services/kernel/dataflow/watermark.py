"""The watermark of a source task: no older record is expected.

Source: PROTOCOL 3. It is chosen by the copy that cuts and pinned by the cut; below the cut nobody computes it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schemas.cuts import LOADED_WATERMARK, NO_WATERMARK, TaskCuts


def of_partitions(newest_us: Iterable[int | None], lateness_us: int) -> int:
    """The minimum, over partitions that are not idle, of the largest event time cut on each, minus the lateness.

    A partition on which nothing was cut yet (None) holds the watermark back. No partitions: NO_WATERMARK.
    """
    times = list(newest_us)
    if not times or any(time is None for time in times):
        return NO_WATERMARK
    return min(time for time in times if time is not None) - lateness_us


def followed(others: Iterable[TaskCuts]) -> int:
    """The watermark that an idle source task follows: that of the slowest task that is not idle. No clock moves it.

    A loaded table says nothing of time, so no task follows it.
    """
    running = [cuts for cuts in others if not cuts.final and cuts.watermark < LOADED_WATERMARK]
    return min((cuts.watermark for cuts in running if not cuts.idle), default=NO_WATERMARK)
