"""Windows of the calendar of a time zone: days, weeks, months, quarters and years.

A window begins at the first moment at which the clocks of the zone show its begin, and ends at the begin of the next
one. So a day with a clock change has 23 or 25 hours, every moment is in exactly one window, and windows are in the
order of moments, even if clocks show a time twice or never. The zone's rules are built into polars: they belong to its
version, which a unit pins (docs/decisions/0135, 0164), and not to the machine.
Source: JOBS "window".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from zoneinfo import available_timezones

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.services.kernel.operators.kind import HeldInput
from holdfast.services.kernel.suggestions import did_you_mean

_DAY_US = 24 * 3600 * 1_000_000
_LAST_US = 253_402_300_800_000_000
"""The beginning of the year 10000: a later time is the end of a stream."""
_STEPS = {"day": "1d", "week": "1w", "month": "1mo", "quarter": "1q", "year": "1y"}
_DAYS = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}
_MAX_KNOWN = 4_096
_QUARTER_HOUR = pl.duration(minutes=15)


def zone_problem(zone: str) -> tuple[str, str]:
    """The mistake in the name of a time zone, and a hint; empty texts if the zone is known."""
    try:
        pl.Series([0]).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
    except PolarsError:
        hint = did_you_mean(zone, available_timezones()) or "names are those of the tz database, such as Europe/Vienna"
        return f"there is no time zone '{zone}'", hint
    return "", ""


class Calendar:
    """Windows that begin with each day, week (on Monday), month, quarter or year of a time zone.

    Args:
        offset_us: the delay of their begin on the clocks of the zone.
    """

    def __init__(self, every: str, zone: str, offset_us: int) -> None:
        self._step = _STEPS[every]
        self._zone = zone
        self._offset = pl.duration(microseconds=offset_us)
        self._longest = (_DAYS[every] + 1) * _DAY_US
        self._begins: list[int] = []
        self._known: dict[int, int] = {}

    # -- what it says of time -----------------------------------------------------------------------------------------

    def closed_us(self, watermark: int) -> int:
        """The time before which rows are late: rows of the window that holds the watermark are in time."""
        return watermark if watermark == NO_WATERMARK or watermark >= _LAST_US else self._window(watermark)[0]

    @property
    def horizon_us(self) -> int:
        """The longest time behind the watermark at which a record can still count. It permits a clock change of a day,
        as on islands that crossed the date line.
        """
        return self._longest

    def held(self, newest_us: int) -> HeldInput:
        return HeldInput.open_until(self._window(newest_us)[1])

    # -- its windows, each of one pane --------------------------------------------------------------------------------

    def panes(self, times: np.ndarray) -> np.ndarray:
        begin, end = self._window(int(times.min()))
        return np.full(len(times), begin, dtype=np.int64) if int(times.max()) < end else self._windows(times)[0]

    def last_end(self, pane: int) -> int:
        return self._window(pane)[1]

    def ends(self, pane: int, after: int, until: int) -> Iterable[int]:
        end = self._window(pane)[1]
        return (end,) if after < end <= until else ()

    def panes_of(self, end: int) -> Sequence[int]:
        return (self.begin(end),)

    def begin(self, end: int) -> int:
        return self._window(end - 1)[0]

    def any_end(self, after: int, until: int) -> bool:
        return after == NO_WATERMARK or until >= _LAST_US or self._window(after)[1] <= until

    # -- from clocks to moments ---------------------------------------------------------------------------------------

    def _window(self, time: int) -> tuple[int, int]:
        """The begin and end of the window of a moment, with a cache of recent windows."""
        at = bisect_right(self._begins, time) - 1
        if at >= 0 and time < (end := self._known[self._begins[at]]):
            return self._begins[at], end
        begins, ends = self._windows(np.array([time], dtype=np.int64))
        begin, end = int(begins[0]), int(ends[0])
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[begin] = end
        self._begins = sorted(self._known)
        return begin, end

    def _windows(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The begins and ends of the windows of many moments."""
        moments = pl.Series("at", times).cast(pl.Datetime("us", "UTC"))
        begun = moments.to_frame().select(
            (pl.col("at").dt.convert_time_zone(self._zone).dt.replace_time_zone(None) - self._offset).dt.truncate(
                self._step
            )
        )["at"]
        distinct = begun.unique().sort()
        row = distinct.search_sorted(begun).to_numpy()
        near = np.stack([self._shown(distinct, by) for by in ("-1", "0", "1", "2")])
        # clocks may have been put back over a beginning, or forward: then the moment is in a window beside
        nth = (near[:, row] <= times).sum(axis=0) - 1
        return near[nth, row], near[nth + 1, row]

    def _shown(self, begun: pl.Series, by: str) -> np.ndarray:
        """The first moment at which clocks show this beginning, or the one before or behind, or would have shown it."""
        frame = begun.to_frame().select(pl.col("at").dt.offset_by(f"{by}{self._step[1:]}") + self._offset)
        moment = pl.col("at").dt.replace_time_zone(self._zone, ambiguous="earliest", non_existent="null")
        found = frame.select(moment)["at"]
        while found.null_count():
            frame = frame.select(pl.when(pl.Series(found.is_null())).then(pl.col("at") + _QUARTER_HOUR).otherwise("at"))
            found = frame.select(moment)["at"]
        return found.dt.convert_time_zone("UTC").to_physical().to_numpy()
