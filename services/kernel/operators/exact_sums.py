"""Sums of floats without rounding errors, so that batches, order and partitions do not change their value.

There are two steps. First, the values of a batch's column are split into levels, columns whose sums are exact for any
order of the additions: each value gives to a level as many of its highest bits as fit into the sum of all rows, and the
rest goes to the next level. Two or three levels are enough for most columns. Then the level sums of a group and its
stored memory are added to a memory of the exact sum: the value (the sum, rounded once) and the rest (the rounding
error). The rest of nearly every sum is one float, so that two columns of floats hold the memories of all keys. A rest
may also be several floats, or, if the sum is beyond the floats, the sum as a whole number of units; such memories are
added one by one.

Source: S. M. Rump, T. Ogita, S. Oishi, "Accurate floating-point summation, part I" (2008), ExtractVector; D. E. Knuth,
TAOCP 2, 4.2.2, TwoSum; math.fsum. docs/decisions/0141 and 0157.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

Exact = float | tuple[float, ...] | int
"""A sum: a tuple of floats that add up to it, the first of which is its value; or an int in units of the smallest
float, for a sum beyond the floats.
"""
Floats = np.ndarray
Rest = float | tuple[float, ...] | int
"""The rounding error of a sum; for a sum beyond the floats, the whole sum."""
Memories = tuple[Floats | list[Any], Floats | list[Any]]
"""The values and rests of sums. NaN or None as the rest means a sum of no values."""

HUGE = 2.0**900
"""Larger values are scaled by SCALE bits for the addition."""
SCALE = 200
_UNIT_BITS = 1074
_UNITS = 2**_UNIT_BITS


@dataclass(frozen=True, slots=True)
class Levels:
    """Columns of floats, one value per row.

    finite: columns whose sums add up to the sum of the finite values that are not huge.
    huge: the same for huge values, divided by 2**SCALE.
    special: infinities and NaN, 0.0 for other values; None: there are none.
    """

    finite: tuple[Floats, ...]
    huge: tuple[Floats, ...] = ()
    special: Floats | None = None

    @property
    def columns(self) -> tuple[Floats, ...]:
        return (*self.finite, *self.huge, *(() if self.special is None else (self.special,)))


def levels(values: Floats) -> Levels:
    """Splits float64 values into levels."""
    most = float(np.abs(values).max(initial=0.0))
    if most <= HUGE:
        return Levels(_cut(values, most))
    known = np.isfinite(values)
    special = None if known.all() else np.where(known, 0.0, values)
    values = np.where(known, values, 0.0)
    large = np.abs(values) > HUGE
    huge = _cut(np.where(large, np.ldexp(values, -SCALE), 0.0)) if large.any() else ()
    return Levels(_cut(np.where(large, 0.0, values)), huge, special)


def _cut(values: Floats, most: float | None = None) -> tuple[Floats, ...]:
    """Splits finite values into columns.

    most: the largest magnitude.
    """
    most = float(np.abs(values).max(initial=0.0)) if most is None else most
    room = len(values).bit_length() + 2
    found: list[Floats] = []
    left = values
    while most > 0.0:
        sigma = math.ldexp(1.0, math.frexp(most)[1] + room)
        high = (left + sigma) - sigma
        found.append(high)
        left = left - high
        most = float(np.abs(left).max())
    return tuple(found) or (np.zeros(len(values)),)


def of_groups(cut: Levels, sums: Sequence[Floats]) -> Memories:
    """The memory of each group.

    sums: for each column of `cut`, its sum for each group.
    """
    finite = sums[: len(cut.finite)]
    high, low = finite[0], np.zeros(len(finite[0]))
    short = np.zeros(len(high), dtype=bool)
    for column in finite[1:]:
        high, error = _two_sum(high, column)
        low, error = _two_sum(low, error)
        short |= error != 0.0
    if len(finite) > 2:
        high, low = _two_sum(high, low)
    others: dict[int, Exact | None] = {
        at: exact([float(column[at]) for column in finite]) for at in np.flatnonzero(short).tolist()
    }
    for at in _touched(sums[len(finite) :]):
        memory = others.get(at)
        if memory is None:
            memory = exact((float(high[at]), float(low[at])))
        huge = [float(column[at]) for column in sums[len(finite) : len(finite) + len(cut.huge)]]
        special = 0.0 if cut.special is None else float(sums[-1][at])
        others[at] = _special(special) if special != 0.0 else _with_huge(memory, huge) if any(huge) else memory
    return _with(high.copy(), low, others) if others else (high, low)


def _touched(columns: Sequence[Floats]) -> list[int]:
    """The positions at which any of the columns is not zero."""
    found: list[int] = np.flatnonzero(np.any([column != 0.0 for column in columns], axis=0)).tolist() if columns else []
    return found


def added(old: Memories, new: Memories) -> Memories:
    """The sums of pairs of memories."""
    (a_high, a_low, a_odd), (b_high, b_low, b_odd) = _plain(old), _plain(new)
    with np.errstate(over="ignore", invalid="ignore"):
        high, error = _two_sum(a_high, b_high)
        low, lost = _two_sum(a_low, b_low)
        low, lost_too = _two_sum(low, error)
        high, low = _two_sum(high, low)
        odd = (lost != 0.0) | (lost_too != 0.0) | ~np.isfinite(low)
    if not (a_odd or b_odd or odd.any()):
        return high, low
    a_nothing, b_nothing = np.isnan(a_low), np.isnan(b_low)
    nothing = a_nothing | b_nothing
    high = np.where(a_nothing, b_high, np.where(b_nothing, a_high, high))
    low = np.where(a_nothing, b_low, np.where(b_nothing, a_low, low))
    odd &= ~nothing
    odd[[*a_odd, *b_odd]] = True
    others = {}
    for at in np.flatnonzero(odd).tolist():
        others[at] = _merged(memory(old, at), memory(new, at))
    return _with(high, low, others)


def floats(memories: Memories) -> Memories:
    """The memories as arrays; the rests stay a list unless each is one float."""
    high, low = np.asarray(memories[0], dtype=np.float64), memories[1]
    try:
        rests = np.asarray(low, dtype=np.float64)
    except (ValueError, OverflowError):  # a value is a tuple, or a whole number beyond every float
        return high, low
    return high, rests if rests.ndim == 1 else low


def _plain(memories: Memories) -> tuple[Floats, Floats, list[int]]:
    """The memories as arrays, with 0.0 for a rest that is not one float, and the positions of these rests."""
    high, low = floats(memories)
    assert not isinstance(high, list)
    if not isinstance(low, list):
        return high, low, []
    odd = [at for at, rest in enumerate(low) if isinstance(rest, tuple | int)]
    rests = list(low)
    for at in odd:
        rests[at] = 0.0
    return high, np.array(rests, dtype=np.float64), odd


def _with(high: Floats, low: Floats, others: Mapping[int, Exact | None]) -> Memories:
    """Replaces the memories at some positions.

    others: the new memory by position.
    """
    rests: dict[int, Rest] = {}
    for at, one in others.items():
        high[at], rest = split(one)
        if isinstance(rest, float):
            low[at] = rest
        else:
            rests[at] = rest
    if not rests:
        return high, low
    column: list[Any] = low.tolist()
    for at, rest in rests.items():
        column[at] = rest
    return high, column


def split(memory: Exact | None) -> tuple[float, Rest]:
    """The value and the rest; twice NaN for a sum of no values."""
    if memory is None:
        return math.nan, math.nan
    if isinstance(memory, int):
        return math.inf if memory > 0 else -math.inf, memory
    if isinstance(memory, float):
        return memory, 0.0
    return memory[0], memory[1] if len(memory) == 2 else memory[1:]


def memory(memories: Memories, at: int) -> Exact | None:
    """The memory at a position; None for a sum of no values."""
    high, rest = memories[0][at], memories[1][at]
    if isinstance(rest, int):
        return rest
    if isinstance(rest, tuple):
        return (float(high), *rest)
    if rest is None or math.isnan(rest):
        return None
    return float(high) if rest == 0.0 else (float(high), float(rest))


def values(memories: Memories) -> pl.Series:
    """The sums, each rounded once; null for a sum of no values."""
    high, low, _ = _plain(memories)
    found, nothing = pl.Series(high), np.isnan(low)
    return found.set(pl.Series(nothing), None) if nothing.any() else found


def without(memories: Memories, unknown: np.ndarray) -> Memories:
    """The memories, with an empty one where `unknown` is true."""
    high, low = memories
    if isinstance(low, list):
        rests: Any = [math.nan if nothing else rest for rest, nothing in zip(low, unknown.tolist(), strict=True)]
    else:
        rests = np.where(unknown, math.nan, low)
    return np.where(unknown, math.nan, high), rests


def chosen(memories: Memories, places: Floats) -> Memories:
    """Memories at some places."""
    high, low = memories
    rests = [low[place] for place in places.tolist()] if isinstance(low, list) else low[places]
    return np.asarray(high, dtype=np.float64)[places], rests


def exact(parts: Sequence[float]) -> Exact:
    """The memory of a sum of some floats."""
    try:
        highest = math.fsum(parts)
    except (OverflowError, ValueError):  # infinities of both signs, or a sum that is no float on the way
        return _beyond(parts)
    if not math.isfinite(highest):
        return _special(highest)
    found, left = [highest], [*parts, -highest]
    while rest := math.fsum(left):
        found.append(rest)
        left.append(-rest)
    return highest if len(found) == 1 else tuple(found)


def parts_of(memory: Exact | None) -> tuple[float, ...]:
    """Floats that add up to the sum. The sum must not be beyond the floats."""
    if memory is None:
        return ()
    assert not isinstance(memory, int)
    return memory if isinstance(memory, tuple) else (memory,)


def _merged(a: Exact | None, b: Exact | None) -> Exact | None:
    if a is None or b is None:
        return b if a is None else a
    if not isinstance(a, int) and not isinstance(b, int):
        return exact((*parts_of(a), *parts_of(b)))
    for one in (a, b):
        if isinstance(one, float) and not math.isfinite(one):
            return one
    return _memory(_units(a) + _units(b))


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sums, and the rounding errors."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def _special(one: float) -> float:
    """The float with one form of NaN for all signs and payloads."""
    return math.nan if math.isnan(one) else one


def _with_huge(memory: Exact, parts: Sequence[float]) -> Exact:
    return _memory(_units(memory) + sum(_units(part) << SCALE for part in parts))


def _beyond(parts: Sequence[float]) -> Exact:
    if all(map(math.isfinite, parts)):
        return _memory(sum(map(_units, parts)))
    return _special(sum(part for part in parts if not math.isfinite(part)))


def _units(memory: Exact) -> int:
    if isinstance(memory, int):
        return memory
    if isinstance(memory, tuple):
        return sum(map(_units, memory))
    numerator, denominator = float(memory).as_integer_ratio()
    return int(numerator * (_UNITS // denominator))


def _memory(units: int) -> Exact:
    """The shortest memory of a sum of `units` units."""
    found: list[float] = []
    left = units
    while left or not found:
        try:
            found.append(left / _UNITS)
        except OverflowError:
            return units
        left -= _units(found[-1])
    return found[0] if len(found) == 1 else tuple(found)
