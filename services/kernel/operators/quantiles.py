"""Quantiles: exact up to 10,000 distinct values, then with an error of at most 1 % of each value.

A memory holds the count of each value. If there are too many values, their last binary digits are dropped, which leaves
64 steps per power of two and an error of 0.8 % at most; values that span more than 47 powers of ten lose further
digits. The number of dropped digits depends only on the values, not on their order; a memory is at most 160 kB. Digits
are dropped instead of taking logarithms, because logarithms differ between processors. NaN and null are skipped.
Source: HdrHistogram (Tene); MECHANISMS C10.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs.keys import canonical_floats
from holdfast.services.kernel.operators.grouped_values import sorted_within

EXACT_UP_TO = 10_000
_DROPPED = 46
"""The number of dropped digits of the 52 binary ones after the point of a float."""
_MAGNITUDE = np.int64(2**63 - 1)
_INFINITE = 0x7FF0_0000_0000_0000
_INT = np.dtype("<i8")

Memory = tuple[int, bytes, bytes]
"""The number of dropped binary digits; the values as ordered whole numbers, ascending; the count of each."""


def prepared(column: pl.Series) -> pl.Series:
    """Floats as whole numbers in the same order; null and NaN become null."""
    floats = canonical_floats(column.cast(pl.Float64)).fill_nan(None)
    bits = floats.fill_null(0.0).to_numpy().view(np.int64)
    return pl.Series(column.name, np.where(bits < 0, -(bits & _MAGNITUDE), bits)).set(floats.is_null(), None)


def memories(lists: pl.Series) -> list[Memory]:
    """A memory a group."""
    values, starts, bounds = sorted_within(lists)
    counts = np.diff(starts, append=len(values)).astype(_INT)
    values = values[starts].astype(_INT)
    return [_fitted(0, values[start:stop], counts[start:stop]) for start, stop in pairwise(bounds.tolist())]


def merged(one: Memory, other: Memory) -> Memory:
    """The memory of both."""
    if len(one[1]) < len(other[1]):
        one, other = other, one
    dropped = max(one[0], other[0])
    known, counts = _coarser(*_arrays(one), dropped) if one[0] < dropped else _arrays(one)
    new, more = _coarser(*_arrays(other), dropped) if other[0] < dropped else _arrays(other)
    if not len(new):
        return one
    at = known.searchsorted(new)
    seen = known.take(at, mode="clip") == new
    counts = counts.copy()
    counts[at[seen]] += more[seen]
    if not seen.all():
        both = np.concatenate((known, new[~seen]))
        order = both.argsort(kind="stable")  # a stable sort merges sorted runs fast
        known, counts = both[order], np.concatenate((counts, more[~seen]))[order]
    return _fitted(dropped, known, counts)


def quantile(memory: Memory, share: float) -> float | None:
    """The value at the share's position, interpolated between its two neighbours."""
    values, counts = _arrays(memory)
    if not len(values):
        return None
    upto = counts.cumsum()
    place = share * (int(upto[-1]) - 1)
    below = int(place)
    low, high = (
        _as_float(int(values[upto.searchsorted(min(at, int(upto[-1]) - 1), side="right")]), memory[0])
        for at in (below, below + 1)
    )
    rest = place - below
    return low if low == high or not rest else low + (high - low) * rest


def _arrays(memory: Memory) -> tuple[np.ndarray, np.ndarray]:
    return np.frombuffer(memory[1], _INT), np.frombuffer(memory[2], _INT)


def _fitted(dropped: int, values: np.ndarray, counts: np.ndarray) -> Memory:
    while len(values) > EXACT_UP_TO:
        dropped = max(_DROPPED, dropped + 1)
        values, counts = _coarser(values, counts, dropped)
    return dropped, values.tobytes(), counts.tobytes()


def _coarser(values: np.ndarray, counts: np.ndarray, dropped: int) -> tuple[np.ndarray, np.ndarray]:
    if not len(values):
        return values, counts
    cut = np.sign(values) * (np.abs(values) >> dropped << dropped)
    starts = np.flatnonzero(np.diff(cut, prepend=cut[0] - 1))
    return cut[starts], np.add.reduceat(counts, starts)


def _as_float(value: int, dropped: int) -> float:
    """The middle of the values that were rounded to `value`."""
    magnitude = abs(value)
    if dropped and 0 < magnitude < _INFINITE:
        magnitude += 1 << (dropped - 1)
    found = float(np.int64(magnitude).view(np.float64))
    return -found if value < 0 else found
