"""Pace of the demo's feeding, its patience with a slow machine, and costs of its kills: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from bench.rig.followed import MeasureFailed

SHARE = 0.4
"""Share of the rate that the machine took in its first second: a takeover needs room to make up for its pause, and a
full machine has none."""
LEAST_PER_S = 200
AGAIN_S = 90.0
"""A unit that is not as before its worker was killed by then never will be, where a cluster starts in 20 s."""
STARTS = 4
"""A unit is waited for so many times as long as the start of the cluster took, which started all the workers."""
FEEDS_S = 75.0
"""The flights of a year last so long at least, however fast the machine is."""
SETTLES_S = 5.0
"""Seconds between two kills, in addition to the start of a worker."""


ROUND_S = 2.0
"""A look at the cluster and the pause after it take less. One that takes longer counts as no more: this process gets no
processor, and neither do those that it waits for."""
MOST_S = 3_600.0
"""Longest wait in seconds for one condition, on any machine."""


class Wait:
    """Time that is spent on waiting for one thing, as far as the machine let the cluster work meanwhile."""

    def __init__(self, limit_s: float, now_s: float) -> None:
        self._limit_s = limit_s
        self._began_s = now_s
        self._last_s = now_s
        self._counted_s = 0.0

    def over(self, now_s: float) -> bool:
        """True if the limit is reached; call it after each check."""
        self._counted_s += min(now_s - self._last_s, ROUND_S)
        self._last_s = now_s
        return self._counted_s > self._limit_s or self.seconds > MOST_S

    @property
    def seconds(self) -> float:
        """Seconds from the beginning to the last check."""
        return self._last_s - self._began_s


def patience_s(up_s: float) -> float:
    """Seconds within which a unit must be protected again.

    up_s: duration of the cluster's start.
    """
    return max(AGAIN_S, STARTS * up_s)


def lasts_s(up_s: float, kills: int) -> float:
    """Seconds for which the flights of a year must last: a worker starts after each kill."""
    return max(FEEDS_S, kills * (up_s + SETTLES_S))


def pace(taken: int, seconds: float, left: int, lasts_s: float) -> int:
    """Records to feed a second, in hundreds.

    Args:
        taken: records of which results came within `seconds`.
        left: records that are still to be fed, enough for `lasts_s`.

    Raises:
        MeasureFailed: no result came.
    """
    if taken <= 0 or seconds <= 0:
        raise MeasureFailed("no result came of the first records, so that nobody knows how fast to feed")
    found = min(SHARE * taken / seconds, left / lasts_s)
    return max(LEAST_PER_S, int(found) // 100 * 100)


@dataclass(frozen=True, slots=True)
class Kill:
    """A kill of a worker.

    way: `takeover` or `restart`.
    killed_ms: time of the command.
    until_ms: time by which the unit is in its former state.
    """

    way: str
    killed_ms: int
    until_ms: int


def silences(kills: Sequence[Kill], results_ms: Sequence[int]) -> dict[str, list[int]]:
    """The longest silence of the results after each kill, in milliseconds, by way.

    Raises:
        MeasureFailed: no result followed one of the kills.
    """
    times, found = sorted(results_ms), dict[str, list[int]]()
    for kill in kills:
        gaps = [after - before for before, after in pairwise(times) if kill.killed_ms < after <= kill.until_ms]
        if not gaps:
            number = len(found.get(kill.way, ())) + 1
            raise MeasureFailed(f"no result followed kill {number} ({kill.way}), so that its silence is not known")
        found.setdefault(kill.way, []).append(max(gaps))
    return found


def figures(found: dict[str, list[int]], kills: dict[str, int]) -> dict[str, int | list[int]]:
    """Median, worst and each silence of each way, by name.

    Args:
        kills: number of kills of each way.

    Raises:
        MeasureFailed: a figure is missing.
    """
    for way, count in kills.items():
        if len(found.get(way, ())) != count:
            raise MeasureFailed(f"{len(found.get(way, ()))} of {count} silences after a {way} are known")
    named: dict[str, int | list[int]] = {}
    for way, each in found.items():
        named |= {f"{way}_ms": round(median(each)), f"{way}_worst_ms": max(each), f"{way}s_ms": each}
    return named
