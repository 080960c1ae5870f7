"""Figures, their targets, and medians over runs. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Figures = dict[str, float]
"""Numbers of one run by name; the unit is the end of the name."""


@dataclass(frozen=True, slots=True)
class Target:
    """Bound of a figure's median: at least, or at most, `bound`."""

    bound: float
    at_least: bool

    def met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {shown(self.bound)}"


def at_least(bound: float) -> Target:
    return Target(bound, True)


def at_most(bound: float) -> Target:
    return Target(bound, False)


def medians(runs: Sequence[Figures]) -> Figures:
    """Median of each figure, over the runs that have it."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: round(statistics.median(run[name] for run in runs if name in run), 3) for name in names}


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -int(-share * len(ordered) // 1) - 1))]


def spread(values: Sequence[float], unit: str) -> Figures:
    """p50, p95, p99 and max."""
    found = {f"p{round(share * 100)}_{unit}": percentile(values, share) for share in (0.5, 0.95, 0.99)}
    return {name: round(value, 1) for name, value in (found | {f"max_{unit}": max(values)}).items()}


def beside(**both: Sequence[float]) -> Figures:
    """Median and worst of each of two series of milliseconds, by their names, and how many there are."""
    figures: Figures = {}
    for name, values in both.items():
        figures |= {f"{name}_p50_ms": round(statistics.median(values), 1), f"{name}_max_ms": round(max(values), 1)}
    return figures | {"kills_of_each": min(len(values) for values in both.values())}


def rows(measure: str, runs: Sequence[Figures], targets: Mapping[str, Target]) -> list[tuple[str, ...]]:
    """Lines of the table: measure, figure, median, target, met, runs."""
    lines: list[tuple[str, ...]] = []
    for figure, median in medians(runs).items():
        target = targets.get(figure)
        met = "" if target is None else "yes" if target.met(median) else "NO"
        each = ", ".join(shown(run[figure]) for run in runs if figure in run)
        lines.append((measure, figure, shown(median), str(target or ""), met, each))
    return lines


def shown(value: float) -> str:
    if value == round(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def middle_slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of points (Theil and Sen), which a few far points do not move; 0
    without two different places.
    """
    slopes = [(y - b) / (x - a) for (a, b), (x, y) in itertools.combinations(points, 2) if x != a]
    return statistics.median(slopes) if slopes else 0.0


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Slope of the straight line nearest to the points; 0 for fewer than two."""
    if len(points) < 2:
        return 0.0
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope
