"""Variances and standard deviations without intermediate rounding errors, equal for any order and any batches.

A memory holds the count, and the exact sums of the values and of their squares, each square as two floats that add up
to it. The quotient is computed in fractions and rounded once. Values beyond 1e154, whose squares are beyond the floats,
make the result null. Source: T. J. Dekker, "A floating-point technique for extending the available precision" (1971).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from holdfast.services.kernel.operators import exact_sums
from holdfast.services.kernel.operators.exact_sums import Exact, Memories

VARIANCES = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
_SPLIT = 2.0**27 + 1


def squares(values: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """Two floats for each value that add up to its square; 0.0 for null."""
    given = values.fill_null(0.0).to_numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        high = given * given
        wide = _SPLIT * given
        upper = wide - (wide - given)
        lower = given - upper
        rest = ((upper * upper - high) + 2.0 * upper * lower) + lower * lower
    return high, np.where(np.isfinite(rest) & np.isfinite(high), rest, 0.0)


def spreads(function: str, sums: Sequence[Memories], counts: Sequence[Any] | np.ndarray) -> list[float | None]:
    """A value for each group.

    sums: the sums of the values, and of the two parts of their squares.
    """
    return [
        _spread(function, [exact_sums.memory(one, at) for one in sums], count or 0) for at, count in enumerate(counts)
    ]


def _spread(function: str, memories: Sequence[Exact | None], count: int) -> float | None:
    sampled = function.endswith("_samp")
    if count < 1 + sampled:
        return None
    parts = [_parts(memory) for memory in memories]
    if not all(math.isfinite(part) for one in parts for part in one):
        return None
    total, high, low = (sum(map(Fraction, one), Fraction()) for one in parts)
    try:
        variance = float(max(Fraction(), (count * (high + low) - total * total) / (count * (count - sampled))))
    except OverflowError:
        return None
    return math.sqrt(variance) if function.startswith("stddev") else variance


def _parts(memory: Exact | None) -> tuple[float, ...]:
    """Floats that add up to a sum; an infinity for a sum beyond the floats."""
    if memory is None:
        return ()
    if isinstance(memory, int):
        return (math.inf,)
    return memory if isinstance(memory, tuple) else (memory,)
