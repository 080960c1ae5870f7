"""Units of a worker that are captured as one: those with the same backup and about the same load for their cost.

Source: MECHANISMS C8. Merged units need not be connected. The ratio of load and capture cost is what a scheduler weighs
(C6), so units that are alike in it would be captured about equally often anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise

from holdfast.services.kernel.protection.expected import Protected

ALIKE = 2.0
"""The larger ratio may be so many times the smaller one. The paper names no limit."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """Units that are captured one after the other. most_ms: the least threshold of their jobs."""

    names: tuple[str, ...]
    load: float
    cost_ms: float
    most_ms: float

    @property
    def ratio(self) -> float:
        return self.load / self.cost_ms

    def fits(self, other: _Entry) -> bool:
        """The two are alike, and together within the threshold."""
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
    """The units of one worker by entry, each unit in one; the two closest entries are merged as long as any fit.

    Args:
        units: with a capture cost above 0. most_ms: by unit, what a merged capture may take at most.
    """
    by_group = sorted(units, key=lambda name: (units[name].primary, units[name].backup))
    groups = groupby(by_group, key=lambda name: (units[name].primary, units[name].backup))
    return tuple(
        entry.names
        for _, names in groups
        for entry in _merged([_Entry((n,), units[n].load, units[n].capture_ms, most_ms[n]) for n in names])
    )


def _merged(entries: list[_Entry]) -> list[_Entry]:
    """In the order of their ratios, in which the closest are neighbours."""
    left = sorted(entries, key=lambda one: (one.ratio, one.names))
    while True:
        near = [(b.ratio - a.ratio, at) for at, (a, b) in enumerate(pairwise(left)) if a.fits(b)]
        if not near:
            return left
        _, at = min(near)
        left[at : at + 2] = [left[at].joined(left[at + 1])]
