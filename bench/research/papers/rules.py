"""The rules that verdicts are made of: one curve below another, flat, rising, linear. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from bench.research.papers.figure import Check, Series
from bench.rig.figures import shown as _shown


def shown(value: float) -> str:
    return _shown(value) if math.isfinite(value) else "unbounded"


def at_most(what: str, value: float, bound: float, *, shape: bool = False) -> Check:
    """Check that a value is at most a bound.

    what: name of the value, to which the bound is added.
    """
    return Check(f"{what} <= {shown(bound)}", shown(round(value, 3)), value <= bound, shape)


def at_least(what: str, value: float, bound: float, *, shape: bool = False) -> Check:
    return Check(f"{what} >= {shown(bound)}", shown(round(value, 3)), value >= bound, shape)


def within(what: str, value: float, low: float, high: float, *, shape: bool = False) -> Check:
    found = shown(round(value, 3))
    return Check(f"{what} between {shown(low)} and {shown(high)}", found, low <= value <= high, shape)


def below(low: Series, high: Series, share: float = 0.8) -> Check:
    """Check that one series is below another at this share of their common x, at least."""
    other = dict(high.points)
    both = [(y, other[x]) for x, y in low.points if x in other]
    holds = [a < b for a, b in both]
    found = f"at {sum(holds)} of {len(holds)} points"
    enough = bool(both) and sum(holds) >= share * len(holds)
    return Check(f"{low.name} lies below {high.name} at {share:.0%} of the points", found, enough)


def flat(series: Series, by: float) -> Check:
    """The largest and the smallest value differ by a factor of at most 1 + by."""
    ys = [y for _, y in series.points]
    ratio = max(ys) / min(ys) if ys and min(ys) > 0 else float("inf")
    return Check(
        f"{series.name} is flat: largest over smallest <= {shown(1 + by)}", shown(round(ratio, 2)), ratio <= 1 + by
    )


def rises(series: Series, factor: float) -> Check:
    """Check that the last value is at least `factor` times the first one, and that the values grow with x overall."""
    (_, first), (_, last) = series.points[0], series.points[-1]
    ratio = last / first if first > 0 else float("inf")
    holds = ratio >= factor and trend(series) > 0
    return Check(f"{series.name} rises: last over first >= {shown(factor)}", shown(round(ratio, 2)), holds)


def linear(series: Series, least: float = 0.9) -> Check:
    """r^2 of the straight line nearest to the points."""
    r2 = r_squared(series)
    return Check(f"{series.name} is linear in x: r^2 >= {shown(least)}", shown(round(r2, 3)), r2 >= least)


def r_squared(series: Series) -> float:
    """0 for fewer than three points, or values that do not change."""
    xs, ys = [x for x, _ in series.points], [y for _, y in series.points]
    if len(xs) < 3 or len(set(ys)) == 1:
        return 0.0
    return statistics.correlation(xs, ys) ** 2


def trend(series: Series) -> float:
    """The slope of the straight line nearest to the points."""
    return statistics.linear_regression([x for x, _ in series.points], [y for _, y in series.points]).slope


def ratio_of_means(one: Sequence[float], other: Sequence[float]) -> float:
    return statistics.fmean(one) / statistics.fmean(other)
