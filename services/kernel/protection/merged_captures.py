"""Units of a worker that are captured together: those with the same backup and a similar ratio of load and cost.

Source: MECHANISMS C8. Merged units need not be connected. A scheduler weighs the ratio of load and capture cost (C6),
so units with similar ratios would be captured about equally often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise

from holdfast.services.kernel.protection.expected import Protected

ALIKE = 2.0
"""The largest quotient of two ratios that count as similar. The paper names no limit."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """Units that are captured one after another.

    names: the names of the units.
    load: their total load.
    cost_ms: their total capture cost.
    most_ms: the least threshold of their jobs.
    """

    names: tuple[str, ...]
    load: float
    cost_ms: float
    most_ms: float

    @property
    def ratio(self) -> float:
        return self.load / self.cost_ms

    def fits(self, other: _Entry) -> bool:
        """True if the two have similar ratios, and their joint cost is within the threshold."""
        low, high = sorted((self.ratio, other.ratio))
        return high <= ALIKE * low and self.cost_ms + other.cost_ms <= min(self.most_ms, other.most_ms)

    def joined(self, other: _Entry) -> _Entry:
        return _Entry(
            tuple(sorted((*self.names, *other.names))),
            self.load + other.load,
            self.cost_ms + other.cost_ms,
            min(self.most_ms, other.most_ms),
        )


def merged(units: Mapping[str, Protected], most_ms: Mapping[str, float]) -> tuple[tuple[str, ...], ...]:
    """The units of one worker by entry, each unit in one entry; the two closest entries are merged while any fit.

    Args:
        units: units with a capture cost above 0.
        most_ms: by unit, the most that a merged capture may cost.
    """
    by_group = sorted(units, key=lambda name: (units[name].primary, units[name].backup))
    groups = groupby(by_group, key=lambda name: (units[name].primary, units[name].backup))
    return tuple(
        entry.names
        for _, names in groups
        for entry in _merged([_Entry((n,), units[n].load, units[n].capture_ms, most_ms[n]) for n in names])
    )


def _merged(entries: list[_Entry]) -> list[_Entry]:
    """The entries in the order of their ratios: the closest entries are neighbours."""
    left = sorted(entries, key=lambda one: (one.ratio, one.names))
    while True:
        near = [(b.ratio - a.ratio, at) for at, (a, b) in enumerate(pairwise(left)) if a.fits(b)]
        if not near:
            return left
        _, at = min(near)
        left[at : at + 2] = [left[at].joined(left[at + 1])]
