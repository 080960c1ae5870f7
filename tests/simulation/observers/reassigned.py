"""Promises of a plan of standbys that move, held against what the replica knew when it made it.

Source: MECHANISMS C7 with f = 1/2, docs/decisions/0092. Independent of the function that plans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.services.kernel.protection.reassigning import Backed
from holdfast.services.recovery.core.placement.reassignment import Reassignment, Survey
from holdfast.services.recovery.core.placement.upkeep import Upkeep

EPS = 1e-6
Groups = Mapping[tuple[str, str], float]


@dataclass(slots=True)
class Planned(Reassignment):
    """Plans of a simulated replica. wrong: where a plan moved more than half, or left a flooded worker alone."""

    wrong: list[str] = field(default_factory=list)

    def look(self, now_us: int, period_us: int, survey: Survey) -> None:
        known: list[tuple[Sequence[Backed], Collection[str]]] = []

        def surveyed(upkeep: Upkeep) -> tuple[Sequence[Backed], Collection[str]]:
            known.append(survey(upkeep))
            return known[-1]

        Reassignment.look(self, now_us, period_us, surveyed)
        for units, workers in known:
            self.wrong += broken(units, workers, dict(self._wanted), self.least_ms)


def broken(
    units: Sequence[Backed], workers: Collection[str], plan: Mapping[str, str], least_ms: float = 0.0
) -> Iterator[str]:
    """plan: where standbys go, by unit."""
    groups = {(i, j): sum(one.expected_ms for one in _group(units, i, j)) for i in workers for j in workers if i != j}
    moved = [one for one in units if one.unit in plan]
    for i, j in sorted({(one.primary, one.backup) for one in moved}):
        own = [one for one in moved if (one.primary, one.backup) == (i, j)]
        most_ms = _half_ms(units, groups, i, j, plan[own[0].unit])
        if (upkeep_ms := sum(one.upkeep_ms for one in own)) > most_ms + EPS:
            yield f"amount: {upkeep_ms:.3f} ms of upkeep move from {j}, half of the difference are {most_ms:.3f} ms"
    if not plan and (left := _flooded(units, groups, workers, least_ms)):
        yield f"flooded: {left} can go, and nothing moves"


def _flooded(units: Sequence[Backed], groups: Groups, workers: Collection[str], least_ms: float) -> str:
    """A standby of which the worker that takes longest could be relieved."""
    of = {i: max(groups[i, j] for j in workers if j != i) for i in sorted(workers) if len(workers) > 1}
    if len(of) < 3:
        return ""
    worst, best = max(of, key=lambda i: of[i]), min(of, key=lambda i: of[i])

    def over(x: str) -> float:
        return groups[x, worst] - groups[x, best]

    x = max((one for one in of if one not in (worst, best)), key=over)
    if over(x) <= least_ms:
        return ""
    most_ms = _half_ms(units, groups, x, worst, best)
    could = (one.unit for one in _group(units, x, worst) if one.may_be_on(best) and one.upkeep_ms < most_ms - EPS)
    return next(could, "")


def _half_ms(units: Sequence[Backed], groups: Groups, i: str, source: str, target: str) -> float:
    """Half of the upkeep of i's units on the source by which the group there is larger than the other."""
    larger = (groups[i, source] - groups[i, target]) / groups[i, source] if groups[i, source] else 0.0
    return 0.5 * larger * sum(one.upkeep_ms for one in _group(units, i, source))


def _group(units: Sequence[Backed], i: str, j: str) -> list[Backed]:
    return [one for one in units if (one.primary, one.backup) == (i, j)]
