"""The structure-aware algorithm as printed in the paper, for comparison; it lists branches, so it is for small cases.

Seeding. Printed: a full topology begins with the best task of every operator; this is not an MC-tree if a union needs
fewer tasks, and has no result if the budget is smaller than the number of operators. Tree: the best MC-tree of the
whole topology by OF per unit. Ranking in full topologies. Static: by the OF with a task while all other tasks of its
operator are gone and all other operators are present, computed once. Marginal: by the task's gain under the present
plan.
Source: MECHANISMS P8 and P9 (algorithms 3, 4 and 5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from holdfast.services.kernel.fidelity.loss import Standing
from holdfast.services.kernel.fidelity.planners.growth import MOST_SIZE, Growth, least_tree
from holdfast.services.kernel.fidelity.planners.plan import Grown, Step, presence, value
from holdfast.services.kernel.fidelity.topology import Topology
from tests.support.decomposition import Branch, SubTopology, blocks, branches, linked, sub_topologies

_EQUAL = 1e-12


class Seeding(Enum):
    PRINTED = "printed"
    TREE = "tree"


class Ranking(Enum):
    STATIC = "static"
    MARGINAL = "marginal"


def printed(
    topology: Topology, budget: int, seeding: Seeding = Seeding.PRINTED, ranking: Ranking = Ranking.STATIC
) -> Grown:
    """The plan of the printed algorithm. Raises TooMany if a block has too many branches."""
    plan: set[int] = set()
    steps: list[Step] = []
    parts = [_Part(topology, sub, ranking) for sub in sub_topologies(topology)]
    base = value(topology, ())

    def take(units: Branch) -> None:
        plan.update(units)
        steps.append(Step(tuple(sorted(units)), value(topology, plan)))

    if seeding is Seeding.TREE:
        if seed := _best_tree(topology, budget):
            take(seed)
    else:
        for part in parts:
            if first := part.step(plan, budget - len(plan)):
                take(first[0])
    while len(plan) < budget:
        found = [one for part in parts if (one := part.step(plan, budget - len(plan)))]
        if not found:
            break
        take(max(found, key=lambda one: one[1])[0])
    return Grown(tuple(steps), base)


def _best_tree(topology: Topology, budget: int) -> Branch:
    standing = Standing(topology, presence(topology, ()))
    growth = Growth(standing, min(budget, least_tree(topology, MOST_SIZE)))
    trees = [growth.units(*one) for one in growth.candidates(1)]
    dense = [((standing.with_units(tree) - standing.fidelity) / len(tree), sorted(tree)) for tree in trees if tree]
    best = max(dense, key=lambda one: one[0], default=(0.0, []))
    return frozenset(best[1]) if best[0] > _EQUAL else frozenset()


@dataclass(slots=True)
class _Part:
    """A sub-topology. Units outside it count as present, so that each is planned alone."""

    topology: Topology
    sub: SubTopology
    ranking: Ranking
    own: frozenset[int] = frozenset()
    outside: frozenset[int] = frozenset()
    blocks: tuple[tuple[Branch, ...], ...] = ()
    links: dict[int, frozenset[int]] = field(default_factory=dict)
    ranks: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        allowed = set(self.topology.open)
        mine = {int(unit) for place in self.sub.nodes for unit in self.topology.nodes[place].units}
        self.own = frozenset(mine & allowed)
        self.outside = frozenset(range(len(self.topology.units))) - self.own - self.topology.barred
        if self.sub.full:
            self.ranks = {unit: self._alone(unit) for unit in sorted(self.own)}
        else:
            self.blocks = tuple(branches(self.topology, block) for block in blocks(self.topology, self.sub))
            self.links = linked(self.topology)

    def step(self, plan: set[int], left: int) -> tuple[Branch, float] | None:
        """The units to add next and their gain per new unit; None if no units that fit have a gain."""
        plan = plan | self.topology.fixed
        found = self._full_step(plan, left) if self.sub.full else self._structured_step(plan, left)
        return found if found and found[0] and len(found[0]) <= left else None

    def _value(self, units: frozenset[int] | set[int]) -> float:
        return value(self.topology, (self.own & units) | self.outside)

    def _alone(self, unit: int) -> float:
        """The OF with this task as the only one of its operators, and all other operators present."""
        places = [place for place in self.topology.nodes_of[unit] if place in self.sub.nodes]
        gone = {int(other) for place in places for other in self.topology.nodes[place].units} - {unit}
        return self._value(self.own - gone)

    # -- full ---------------------------------------------------------------------------------------------------------

    def _full_step(self, plan: set[int], left: int) -> tuple[Branch, float] | None:
        before = self._value(plan)
        if not self.own & plan:
            seed = frozenset(
                max(units, key=lambda unit: self.ranks[unit])
                for place in self.sub.nodes
                if (units := [unit for one in self.topology.nodes[place].units if (unit := int(one)) in self.own])
            )
            return (seed, (self._value(plan | seed) - before) / len(seed)) if seed else None
        rest = sorted(self.own - plan)
        if not rest:
            return None
        gains = {unit: self._value(plan | {unit}) - before for unit in rest}
        ranks = self.ranks if self.ranking is Ranking.STATIC else gains
        best = max(rest, key=lambda unit: ranks[unit])
        return frozenset({best}), gains[best]

    # -- structured ---------------------------------------------------------------------------------------------------

    def _structured_step(self, plan: set[int], left: int) -> tuple[Branch, float] | None:
        before, best = self._value(plan), None
        for candidate in self._candidates(plan, left, before):
            new = candidate - plan
            gain = self._value(plan | new) - before
            if new and len(new) <= left and gain > _EQUAL and (best is None or gain / len(new) > best[1] + _EQUAL):
                best = (frozenset(new), gain / len(new))
        return best

    def _candidates(self, plan: set[int], left: int, before: float) -> Iterator[Branch]:
        for number, some in enumerate(self.blocks):
            for branch in some:
                if branch <= plan or not branch - plan <= self.own:
                    continue
                if self._value(plan | branch) - before > _EQUAL:
                    yield branch
                else:
                    yield self._extended(branch, number, plan, left)

    def _extended(self, branch: Branch, number: int, plan: set[int], left: int) -> Branch:
        """Extends a branch by one connected branch of each neighbouring block, nearest first, until it has a gain or
        nothing fits.
        """
        found, before = set(branch), self._value(plan)
        waiting = [other for other in range(len(self.blocks)) if other != number]
        while waiting and self._value(plan | found) - before <= _EQUAL:
            near = {unit for one in found for unit in self.links[one]}
            options = [
                (other, one)
                for other in waiting
                for one in self.blocks[other]
                if one & near and len((found | one) - plan) <= left and one - plan <= self.own
            ]
            if not options:
                break
            other, best = max(options, key=lambda o: (o[1] <= plan, self._of_block(o[0], o[1]), -len(o[1] - plan)))
            found |= best
            waiting.remove(other)
        return frozenset(found)

    def _of_block(self, number: int, branch: Branch) -> float:
        """The OF with this branch as the only remaining part of its block."""
        block = {unit for one in self.blocks[number] for unit in one}
        return self._value((self.own - block) | branch)
