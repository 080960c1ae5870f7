"""Standbys that move to another worker, so that the worst failure is recovered sooner: once a rebalance period.

Source: MECHANISMS C7. A plan names standbys and where they go; who carries it out makes the new one first. In the paper
every worker has units of its own; no group is smaller than the 0 of one that has none. So the smallest R_Qk, with which
the smallest group is compared, is that of a worker that leads units (docs/decisions/0088). Where a worker has more
peers than units, its smallest group is always 0; if nothing of its largest one can move, others relieve it of images
(docs/decisions/0092).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.services.kernel.protection.expected import of_workers

HALF = 0.5
LITERAL = 1.0
"""Share as the paper prints it: the whole difference moves, and comes back in the next period. For comparison only."""


@dataclass(frozen=True, slots=True)
class Backed:
    """A unit with a standby. expected_ms: R_u averaged over the period. upkeep_ms: CPU time spent on its image then.

    fits: the workers that may hold its standby; None: all but its primary.
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
    """The standby of this unit goes to another worker."""

    unit: str
    to: str


def reassigned(
    units: Sequence[Backed], workers: Collection[str], share: float = HALF, least_ms: float = 0.0
) -> tuple[Reassigned, ...]:
    """The standbys that move now; none: nothing would be better.

    Args:
        workers: all that may hold standbys, also those that hold none.
        share: of the difference between two groups that moves, f.
        least_ms: nothing moves between groups that differ by no more.
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
    """R_Qij of every pair that there can be: i has no unit, or one that is on j or may be."""
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
    """Units of the primary's on the source that may go and whose upkeep fits what is to move, in their order."""
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
