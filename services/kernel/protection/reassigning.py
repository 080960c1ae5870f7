"""Moves of standbys to other workers that shorten the longest recovery; computed once per rebalance period.

Source: MECHANISMS C7. A plan names standbys and their targets; the service that executes it makes the new standby
first. In the paper every worker has units of its own; a worker without units has a group of 0, the smallest possible.
So the smallest R_Qk, which is compared with the smallest group, is that of a worker that leads units
(docs/decisions/0088). If a worker has more peers than units, its smallest group is always 0; if nothing of its largest
group can move, images of other primaries move away instead (docs/decisions/0092).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.services.kernel.protection.expected import of_workers

HALF = 0.5
LITERAL = 1.0
"""The share as printed in the paper: the whole difference moves, and returns in the next period. Only for comparison.
"""


@dataclass(frozen=True, slots=True)
class Backed:
    """A unit with a standby.

    unit: the name of the unit.
    primary: the worker that leads it.
    backup: the worker with its standby.
    expected_ms: R_u averaged over the period.
    upkeep_ms: the CPU time spent on its image in the period.
    fits: the workers that may hold its standby; None: all except its primary.
    """

    unit: str
    primary: str
    backup: str
    expected_ms: float
    upkeep_ms: float
    fits: frozenset[str] | None = None

    def may_be_on(self, worker: str) -> bool:
        return worker != self.primary and (self.fits is None or worker in self.fits)


@dataclass(frozen=True, slots=True)
class Reassigned:
    """A move of the standby of `unit` to worker `to`."""

    unit: str
    to: str


def reassigned(
    units: Sequence[Backed], workers: Collection[str], share: float = HALF, least_ms: float = 0.0
) -> tuple[Reassigned, ...]:
    """The standbys to move now; empty if no move helps.

    Args:
        units: the units with a standby.
        workers: all workers that may hold standbys, also those without any.
        share: f, the share of the difference between two groups that moves.
        least_ms: groups that differ by no more keep their units.
    """
    groups = _groups(units, workers)
    of = of_workers(groups)
    leading = {one.primary for one in units}.intersection(of)
    if len(of) < 2 or not leading:
        return ()
    worst, best = max(of, key=lambda worker: of[worker]), min(of, key=lambda worker: of[worker])
    own = {j: group_ms for (i, j), group_ms in groups.items() if i == worst}
    most, least = max(own, key=lambda j: own[j]), min(own, key=lambda j: own[j])
    spread: tuple[Reassigned, ...] = ()
    if own[least] < min(of[worker] for worker in leading):
        spread = _moved(units, worst, most, least, groups, share, least_ms)
    if spread:
        return spread
    others = [x for x in of if x not in (worst, best) and {(x, worst), (x, best)} <= groups.keys()]
    if not others:
        return ()
    relieving = max(others, key=lambda x: groups[x, worst] - groups[x, best])
    return _moved(units, relieving, worst, best, groups, share, least_ms)


def _groups(units: Iterable[Backed], workers: Collection[str]) -> dict[tuple[str, str], float]:
    """R_Qij of every possible pair: i has no unit, or has one whose standby is on j or may be."""
    of = {i: [one for one in units if one.primary == i] for i in workers}
    groups = {
        (i, j): 0.0
        for i in sorted(workers)
        for j in sorted(workers)
        if i != j and (not of[i] or any(one.backup == j or one.may_be_on(j) for one in of[i]))
    }
    for one in units:
        if (one.primary, one.backup) in groups:
            groups[one.primary, one.backup] += one.expected_ms
    return groups


def _moved(
    units: Iterable[Backed],
    primary: str,
    source: str,
    target: str,
    groups: Mapping[tuple[str, str], float],
    share: float,
    least_ms: float,
) -> tuple[Reassigned, ...]:
    """The units of the primary on the source that may move and whose upkeep fits into the share, in order."""
    group = [one for one in units if (one.primary, one.backup) == (primary, source)]
    source_ms, target_ms = groups[primary, source], groups[primary, target]
    if source_ms - target_ms <= least_ms:
        return ()
    left_ms = share * (source_ms - target_ms) / source_ms * sum(one.upkeep_ms for one in group)
    moved = []
    for one in group:
        if one.may_be_on(target) and one.upkeep_ms <= left_ms:
            left_ms -= one.upkeep_ms
            moved.append(Reassigned(one.unit, target))
    return tuple(moved)
