"""Report of the study: false suspicions an hour and times of detection, by load, detector and misses. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.research.detectors.study import BENCHMARK, DETECTORS, LEVELS, MISSES, Outcome

ENOUGH = 0.95
"""Share of the time that was asked for."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the report.

    false_per_h: false suspicions of one worker; the benchmark detector suspects all workers of a machine together.
    right: suspicions of workers that hung. Detection times are of possible failures; None: never.
    """

    level: str
    load: float
    detector: str
    misses: int
    false_per_h: float
    right: int
    detection_p50_ms: float | None
    detection_p95_ms: float | None


def report(outcomes: Sequence[Outcome], detectors: Sequence[str], misses: Sequence[int]) -> list[Row]:
    """Rows over all parts of a level; detection times are those of the newest part."""
    rows = []
    for level in LEVELS:
        some = [one for one in outcomes if one.level == level]
        for name, number in ((d, m) for d in DETECTORS if d in detectors for m in _misses(d) if m in (0, *misses)):
            if some:
                rows.append(_row(level, some, name, number))
    return rows


def _misses(detector: str) -> tuple[int, ...]:
    return (0,) if detector == BENCHMARK else MISSES


def _row(level: str, some: Sequence[Outcome], detector: str, misses: int) -> Row:
    wanted = (detector, misses)
    found = [(one, each.found) for one in some for each in one.judged if (each.detector, each.misses) == wanted]
    seconds = sum(one.seconds for one in some)
    of_one = sum(judged.false / (1 if detector == BENCHMARK else one.workers) for one, judged in found)
    newest = found[-1][1]
    return Row(
        level=level,
        load=round(sum(one.load * one.seconds for one in some) / seconds, 3),
        detector=detector,
        misses=misses,
        false_per_h=round(of_one / seconds * 3600, 1),
        right=sum(judged.right for _, judged in found),
        detection_p50_ms=newest.detection_p50_ms,
        detection_p95_ms=newest.detection_p95_ms,
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of the cluster's own switches at a level; none was needed, and each cost only work."""

    level: str
    minutes: float
    switches: int
    stood_still: int
    longest_gap_ms: float
    longest_gap_at_switches_ms: float
    inexact: int


def costs(outcomes: Sequence[Outcome]) -> list[Cost]:
    rows = []
    for level in LEVELS:
        some = [one for one in outcomes if one.level == level]
        if some:
            rows.append(
                Cost(
                    level,
                    round(sum(one.seconds for one in some) / 60, 1),
                    sum(one.switches for one in some),
                    sum(one.stood_still for one in some),
                    max(one.longest_gap_ms for one in some),
                    max(one.longest_gap_at_switches_ms for one in some),
                    max(one.inexact for one in some),
                )
            )
    return rows


def left_of(levels: Sequence[str], outcomes: Sequence[Outcome], seconds: float) -> list[str]:
    """Levels at which not enough was recorded."""
    made = {level: sum(one.seconds for one in outcomes if one.level == level) for level in levels}
    return [level for level in levels if made[level] < seconds * ENOUGH]
