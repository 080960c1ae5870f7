"""Sums of floats without a rounding error, so that neither batches nor order nor partitions change their value.

Two steps. Of a batch, the values of a column are cut into levels, columns whose sums are exact whatever the order of
the additions: each value gives to a level as many of its highest bits as the sum of all rows has room for, and the rest
goes to the next level. Two or three levels are enough for most columns. Then what a group has in each level, and what
is stored of it, is added to a memory of the exact sum: a float where that is one, else floats that add up to it, the
first of which is the sum, rounded once; a whole number of units where the sum is beyond every float.

Source: S. M. Rump, T. Ogita, S. Oishi, "Accurate floating-point summation, part I" (2008), ExtractVector; D. E. Knuth,
TAOCP 2, 4.2.2, TwoSum; math.fsum. docs/decisions/0141.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Exact = float | tuple[float, ...] | int
"""A memory of a sum. int: in units of the smallest float, for a sum that is no float."""
Floats = np.ndarray

HUGE = 2.0**900
"""Larger values are scaled while they are added, by SCALE bits."""
SCALE = 200
FEW = 64
"""Of so many sums each is added by itself."""
_UNIT_BITS = 1074
_UNITS = 2**_UNIT_BITS


@dataclass(frozen=True, slots=True)
class Levels:
    """Columns of floats, one value a row. finite: their sums add up to those of the finite values that are not huge.

    huge: the same for huge values, divided by 2**SCALE. special: infinities and NaN, 0.0 elsewhere; None: there are
    none.
    """

    finite: tuple[Floats, ...]
    huge: tuple[Floats, ...] = ()
    special: Floats | None = None

    @property
    def columns(self) -> tuple[Floats, ...]:
        return (*self.finite, *self.huge, *(() if self.special is None else (self.special,)))


def levels(values: Floats) -> Levels:
    """values: float64, any."""
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
    """most: the largest magnitude."""
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


def of_groups(cut: Levels, sums: Sequence[Floats]) -> list[Exact]:
    """The memory of each group. sums: of each of the columns of `cut`, a value a group."""
    finite = sums[: len(cut.finite)]
    if len(finite) == 1 and not cut.huge and cut.special is None:
        found: list[float] = finite[0].tolist()
        return list(found)
    exact = _paired(finite)
    if cut.huge:
        huge = zip(*(column.tolist() for column in sums[len(finite) : len(finite) + len(cut.huge)]), strict=True)
        exact = [
            memory if not any(parts) else _with_huge(memory, parts) for memory, parts in zip(exact, huge, strict=True)
        ]
    if cut.special is not None:
        special = sums[-1].tolist()
        exact = [memory if one == 0.0 else _special(one) for memory, one in zip(exact, special, strict=True)]
    return exact


def added(old: Sequence[Exact | None], new: Sequence[Exact | None]) -> list[Exact | None]:
    """Two memories of each of the same sums; None: of nothing."""
    if len(old) < FEW:
        return [_one_added(a, b) for a, b in zip(old, new, strict=True)]
    (a_high, a_low, a_odd), (b_high, b_low, b_odd) = _columns(old), _columns(new)
    with np.errstate(over="ignore", invalid="ignore"):
        high, error = _two_sum(a_high, b_high)
        low, lost = _two_sum(a_low, b_low)
        low, lost_too = _two_sum(low, error)
        high, low = _two_sum(high, low)
        odd = (lost != 0.0) | (lost_too != 0.0) | ~np.isfinite(low)
    found: list[Exact | None] = [
        one if rest == 0.0 else (one, rest) for one, rest in zip(high.tolist(), low.tolist(), strict=True)
    ]
    for at in {*a_odd, *b_odd, *np.flatnonzero(odd).tolist()}:
        found[at] = _one_added(old[at], new[at])
    return found


def _columns(memories: Sequence[Exact | None]) -> tuple[Floats, Floats, list[int]]:
    """Sums of at most two floats, by column, 0.0 for others, and where these are."""
    high, low, odd = [0.0] * len(memories), [0.0] * len(memories), list[int]()
    for at, memory in enumerate(memories):
        if type(memory) is float:
            high[at] = memory
        elif type(memory) is tuple and len(memory) == 2:
            high[at], low[at] = memory
        else:
            odd.append(at)
    return np.array(high), np.array(low), odd


def _one_added(a: Exact | None, b: Exact | None) -> Exact | None:
    if a is None or b is None:
        return b if a is None else a
    rests = 0.0
    if type(a) is tuple and len(a) == 2:
        high, rests = a
    elif type(a) is float:
        high = a
    else:
        return _merged(a, b)
    if type(b) is float:
        other, low, lost = b, rests, 0.0
    elif type(b) is tuple and len(b) == 2:
        other, low = b
        low, lost = _two(rests, low)
    else:
        return _merged(a, b)
    high, error = _two(high, other)
    low, lost_too = _two(low, error)
    if lost != 0.0 or lost_too != 0.0:
        return _merged(a, b)
    high, low = _two(high, low)
    if low == 0.0:
        return high
    return (high, low) if low - low == 0.0 else _merged(a, b)


def _two(a: float, b: float) -> tuple[float, float]:
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def value(memory: Exact | None) -> float | None:
    """The sum, rounded once."""
    if memory is None or type(memory) is float:
        return memory
    if isinstance(memory, tuple):
        return memory[0]
    return math.inf if memory > 0 else -math.inf


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
    """Floats that add up to it. Not of a sum that is no float."""
    if memory is None:
        return ()
    assert not isinstance(memory, int)
    return memory if isinstance(memory, tuple) else (memory,)


def _merged(a: Exact, b: Exact) -> Exact:
    if not isinstance(a, int) and not isinstance(b, int):
        return exact((*parts_of(a), *parts_of(b)))
    for one in (a, b):
        if isinstance(one, float) and not math.isfinite(one):
            return one
    return _memory(_units(a) + _units(b))


def _paired(columns: Sequence[Floats]) -> list[Exact]:
    """The same for each group: by Knuth's sum of two, and one by one where two floats are not enough."""
    high, low = columns[0], np.zeros(len(columns[0]))
    short = np.zeros(len(high), dtype=bool)
    for column in columns[1:]:
        high, error = _two_sum(high, column)
        low, error = _two_sum(low, error)
        short |= error != 0.0
    high, low = _two_sum(high, low)
    found: list[Exact] = [
        one if rest == 0.0 else (one, rest) for one, rest in zip(high.tolist(), low.tolist(), strict=True)
    ]
    for group in np.flatnonzero(short).tolist():
        found[group] = exact([float(column[group]) for column in columns])
    return found


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sums, and what rounding has taken."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def _special(one: float) -> float:
    """One NaN, whatever its sign and payload."""
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
    """The shortest memory of a sum of so many units."""
    found: list[float] = []
    left = units
    while left or not found:
        try:
            found.append(left / _UNITS)
        except OverflowError:
            return units
        left -= _units(found[-1])
    return found[0] if len(found) == 1 else tuple(found)
