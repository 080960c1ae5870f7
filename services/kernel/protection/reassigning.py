"""Which standbys move to another worker, so that the worst failure is recovered sooner: once a rebalance period.

Source: MECHANISMS C7. A plan names standbys and where they go; who carries it out makes the new one first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from services.kernel.protection.expected import of_workers

HALF = 0.5
LITERAL = 1.0
"""As the paper prints it: the whole difference moves, and comes back in the next period. For comparison only."""


@dataclass(frozen=True, slots=True)
class Backed:
    """A unit with a standby. expected_ms: R_u averaged over the period. upkeep_ms: CPU time spent on its image then."""

    unit: str
    primary: str
    backup: str
    expected_ms: float
    upkeep_ms: float


@dataclass(frozen=True, slots=True)
class Reassigned:
    """The standby of this unit goes to another worker."""

    unit: str
    to: str


def reassigned(units: Sequence[Backed], workers: Collection[str], share: float = HALF) -> tuple[Reassigned, ...]:
    """The standbys that move now; none: nothing would be better.

    Args:
        workers: all that may hold standbys, also those that hold none.
        share: of the difference between two groups that moves, f.
    """
    groups = {(i, j): 0.0 for i in sorted(workers) for j in sorted(workers) if i != j}
    for one in units:
        if (one.primary, one.backup) in groups:
            groups[one.primary, one.backup] += one.expected_ms
    of = of_workers(groups)
    if len(of) < 2:
        return ()
    worst, best = max(of, key=lambda worker: of[worker]), min(of, key=lambda worker: of[worker])
    own = {j: group_ms for (i, j), group_ms in groups.items() if i == worst}
    most, least = max(own, key=lambda j: own[j]), min(own, key=lambda j: own[j])
    if own[least] < of[best]:
        return _moved(units, worst, most, least, own[most], own[least], share)
    others = [x for x in of if x not in (worst, best)]
    if not others:
        return ()
    relieving = max(others, key=lambda x: groups[x, worst] - groups[x, best])
    return _moved(units, relieving, worst, best, groups[relieving, worst], groups[relieving, best], share)


def _moved(
    units: Iterable[Backed], primary: str, source: str, target: str, source_ms: float, target_ms: float, share: float
) -> tuple[Reassigned, ...]:
    """Of the primary's units on the source, those whose upkeep fits what is to move, in their order."""
    group = [one for one in units if (one.primary, one.backup) == (primary, source)]
    if source_ms <= target_ms:
        return ()
    left_ms = share * (source_ms - target_ms) / source_ms * sum(one.upkeep_ms for one in group)
    moved = []
    for one in group:
        if one.upkeep_ms <= left_ms:
            left_ms -= one.upkeep_ms
            moved.append(Reassigned(one.unit, target))
    return tuple(moved)
