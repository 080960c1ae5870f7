"""Loads of workers over time. Pure; random numbers follow from a seed.

A load is a share of one CPU, constant within a slice of time. Source: MECHANISMS C5 (l_u), W7 and W8 (the streams).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

SLICE_MS = 1_000.0


@dataclass(frozen=True, slots=True)
class Load:
    """Load over time.

    shares: shares of a CPU, one for each slice; the last one continues forever.
    """

    shares: tuple[float, ...]
    _done_ms: tuple[float, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        done = tuple(accumulate((share * SLICE_MS for share in self.shares), initial=0.0))
        object.__setattr__(self, "_done_ms", done)

    def at(self, now_ms: float) -> float:
        return self.shares[min(int(now_ms // SLICE_MS), len(self.shares) - 1)]

    def done_ms(self, now_ms: float) -> float:
        """CPU time that has come in by now; none before 0."""
        now_ms = max(now_ms, 0.0)
        slices = min(int(now_ms // SLICE_MS), len(self.shares) - 1)
        return self._done_ms[slices] + self.shares[slices] * (now_ms - slices * SLICE_MS)


def constant(share: float) -> Load:
    return Load((share,))


def added(loads: Sequence[Load]) -> Load:
    """The sum of loads."""
    slices = max(len(load.shares) for load in loads)
    return Load(tuple(sum(load.at(n * SLICE_MS) for load in loads) for n in range(slices)))


def bursty(mean: float, deviation: float, slices: int, chance: random.Random) -> Load:
    """Rates of real packets vary: a share of `mean`, its standard deviation `deviation` of it, from slice to slice.

    Log-normal, so that it stays above 0. Source: W7 (2.0K tuples/s, standard deviation 0.7K).
    """
    spread = math.sqrt(math.log(1 + deviation**2))
    return Load(tuple(mean * math.exp(chance.gauss(-(spread**2) / 2, spread)) for _ in range(slices)))


def ramped(share: Callable[[float], float], slices: int) -> Load:
    """A load that follows a function.

    share: share of a CPU, given the middle of a slice in milliseconds.
    """
    return Load(tuple(share((n + 0.5) * SLICE_MS) for n in range(slices)))
