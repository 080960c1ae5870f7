"""Ratios of figures by pairs, their median, and its confidence interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SURE = 0.9


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratio of Holdfast's value over the other's.

    median: median of the pairs' ratios.
    low, high: bounds of the median of all such pairs, with probability SURE (order statistics: without an assumption
        about the distribution of ratios); nan with too few pairs.
    """

    ours: float
    theirs: float
    median: float
    low: float
    high: float
    pairs: int


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Ratio of figures that were taken by turns. Pairs whose second figure is 0 do not count. Raises ValueError if
    none.
    """
    ratios = sorted(one / other for one, other in zip(ours, theirs, strict=True) if other)
    if not ratios:
        raise ValueError("no pair has a ratio")
    low, high = between(ratios)
    return Ratio(statistics.median(ours), statistics.median(theirs), statistics.median(ratios), low, high, len(ratios))


def between(ordered: Sequence[float]) -> tuple[float, float]:
    """The narrowest pair of order statistics that contains the median of their distribution with probability SURE."""
    n = len(ordered)
    outside, low = 0.0, -1
    for k in range(n // 2):
        outside += math.comb(n, k) / 2**n
        if 2 * outside > 1 - SURE:
            break
        low = k
    return (ordered[low], ordered[n - 1 - low]) if low >= 0 else (math.nan, math.nan)
