"""The watermark of a source task: no older record is expected.

Source: PROTOCOL 3. The copy that cuts chooses the watermark and writes it into the cut; later readers never compute it
again.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schemas.cuts import LOADED_WATERMARK, NO_WATERMARK, TaskCuts


def of_partitions(newest_us: Iterable[int | None], lateness_us: int) -> int:
    """The minimum, over partitions that are not idle, of the largest event time cut on each, minus the lateness.

    A partition without a cut record so far (None) holds the watermark back. Without partitions: NO_WATERMARK.
    """
    times = list(newest_us)
    if not times or any(time is None for time in times):
        return NO_WATERMARK
    return min(time for time in times if time is not None) - lateness_us


def followed(others: Iterable[TaskCuts]) -> int:
    """The watermark that an idle source task follows: the lowest of the tasks that are not idle. No clock moves it.

    A loaded table has no times, so no task follows it.
    """
    running = [cuts for cuts in others if not cuts.final and cuts.watermark < LOADED_WATERMARK]
    return min((cuts.watermark for cuts in running if not cuts.idle), default=NO_WATERMARK)
