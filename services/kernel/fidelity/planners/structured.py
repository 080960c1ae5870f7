"""The planner in use: each step extends the plan by the MC-tree, or part of one, with the largest gain per unit.

The paper divides a topology into sub-topologies, blocks and branches, because it lists MC-trees and their number
explodes (tests/support/printed_planner.py is that algorithm). The search of growth.py finds the best tree of every size
without a list, over the whole topology at once: single units, branches, and trees across all sub-topologies are equal
candidates.
Source: MECHANISMS P8 and P9; docs/decisions/0145.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.services.kernel.fidelity.loss import Standing
from holdfast.services.kernel.fidelity.planners.greedy import greedy
from holdfast.services.kernel.fidelity.planners.growth import MOST_SIZE, Growth, least_tree
from holdfast.services.kernel.fidelity.planners.plan import Grown, Step, presence
from holdfast.services.kernel.fidelity.topology import Topology

EXACT_UP_TO = 250
"""The largest number of units for which every step is a search; in larger topologies one search gives several steps."""
_NEAR = 0.75
"""The least gain per unit of a further candidate of a search, relative to the best candidate."""
_EQUAL = 1e-12


def structure_aware(topology: Topology, budget: int, start: Collection[int] = ()) -> Grown:
    """Adds steps until none within the budget has a gain; part of the budget may remain.

    start: units planned before.
    If a search gives several steps, the greedy plan is a second candidate: it is sometimes better.
    """
    standing = Standing(topology, presence(topology, start))
    base, left, steps = standing.fidelity, budget, list[Step]()
    largest = least_tree(topology, MOST_SIZE)
    together = 1 + len(topology.units) // EXACT_UP_TO
    while left > 0:
        taken = _search(standing, min(left, largest), left, together)
        if not taken:
            break
        steps += taken
        left -= sum(len(step.units) for step in taken)
    found = Grown(tuple(steps), base)
    if together == 1 or start:
        return found
    return max(found, greedy(topology, budget), key=lambda one: one.fidelity)


def _search(standing: Standing, size: int, left: int, together: int) -> list[Step]:
    growth, least = Growth(standing, size), _EQUAL * standing.fidelity
    candidates = growth.candidates(together)
    if together == 1:
        found = ((growth.units(*one), one) for one in candidates)
        best = max(
            ((_density(standing, one), sorted(one)) for one, _ in found), key=lambda one: one[0], default=(0.0, [])
        )
        return [_taken(standing, best[1])] if best[0] > least else []
    taken, first = list[Step](), 0.0
    for one in candidates:
        new = sorted(unit for unit in growth.units(*one) if not standing.alive[unit])
        if not new or len(new) > left:
            continue
        density = _density(standing, new)
        if density <= least or density < _NEAR * first:
            continue
        first = first or density
        taken.append(_taken(standing, new))
        left -= len(new)
        if len(taken) == together or not left:
            break
    return taken


def _density(standing: Standing, new: Collection[int]) -> float:
    """The gain in OF per new unit."""
    return (standing.with_units(new) - standing.fidelity) / len(new) if new else 0.0


def _taken(standing: Standing, new: Sequence[int]) -> Step:
    standing.add(new)
    return Step(tuple(new), standing.fidelity)
