"""The best plan of each size, from every union of MC-trees within the budget. Exponential; for small cases.

A unit outside every complete MC-tree of a plan adds nothing, so the best plan is a union of trees. Plans grow by trees
whose new units fit into the remaining budget, in increasing size. Source: MECHANISMS P6.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from holdfast.services.kernel.fidelity.loss import fidelity
from holdfast.services.kernel.fidelity.planners.plan import Grown, Step
from holdfast.services.kernel.fidelity.topology import Topology
from holdfast.services.kernel.fidelity.trees import TooMany, mc_trees
from holdfast.services.kernel.plurals import plural

MOST_PAIRS = 20_000_000
"""The most pairs of a plan and a tree that are tried: seconds of work."""
MOST_UNITS = 63
_SLICE = 4_096
"""The number of plans evaluated at once."""
Masks = NDArray[np.uint64]


def exact(topology: Topology, budget: int, most: int = MOST_PAIRS) -> tuple[Grown, ...]:
    """The best plans for all budgets from 0 on, each as one step.

    Raises:
        TooMany: there are more trees, units or plans than the search can process.
    """
    if len(topology.units) > MOST_UNITS:
        raise TooMany(f"{plural(len(topology.units), 'unit')}, more than {MOST_UNITS}")
    given = _mask(topology.fixed)
    trees = np.array(
        sorted({_mask(tree) & ~given for tree in mc_trees(topology) if not tree & topology.barred}), dtype=np.uint64
    )
    best: list[tuple[float, int]] = []
    for plans in _by_size(trees, budget, most):
        value, plan = _best(topology, plans, given)
        best.append(max(best[-1], (value, plan), key=lambda one: one[0]) if best else (value, plan))
    base = best[0][0]
    return tuple(Grown((Step(_units(plan), value),) if plan else (), base) for value, plan in best)


def _by_size(trees: Masks, budget: int, most: int) -> Iterable[Masks]:
    """All unions of trees, by the number of their units, up to the budget."""
    waiting: list[list[Masks]] = [[] for _ in range(budget + 1)]
    waiting[0] = [np.zeros(1, dtype=np.uint64)]
    seen = 0
    for size in range(budget + 1):
        plans = np.unique(np.concatenate(waiting[size])) if waiting[size] else np.zeros(0, dtype=np.uint64)
        waiting[size] = []
        seen += len(plans) * len(trees)
        if seen > most:
            raise TooMany(f"more than {most} ways to grow a plan of {plural(budget, 'unit')}")
        yield plans
        for tree in trees if size < budget else ():
            grown = plans | tree
            sizes = np.bitwise_count(grown)
            for larger in np.unique(sizes[(sizes > size) & (sizes <= budget)]):
                waiting[int(larger)].append(np.unique(grown[sizes == larger]))
        for larger in range(size + 1, budget + 1):
            if len(waiting[larger]) > 1:
                waiting[larger] = [np.unique(np.concatenate(waiting[larger]))]
            if seen + len(waiting[larger][0] if waiting[larger] else ()) * len(trees) > most:
                raise TooMany(f"more than {most} ways to grow a plan of {plural(budget, 'unit')}")


def _best(topology: Topology, plans: Masks, given: int) -> tuple[float, int]:
    best, at = -1.0, 0
    bits = np.arange(len(topology.units), dtype=np.uint64)
    for start in range(0, len(plans), _SLICE):
        some = plans[start : start + _SLICE]
        alive = ((some | np.uint64(given))[:, None] >> bits & np.uint64(1)).astype(np.bool_)
        values = fidelity(topology, alive)
        top = int(values.argmax())
        if values[top] > best + 1e-12:
            best, at = float(values[top]), int(some[top])
    return best, at


def _mask(units: Iterable[int]) -> int:
    found = 0
    for unit in units:
        found |= 1 << unit
    return found


def _units(mask: int) -> tuple[int, ...]:
    return tuple(unit for unit in range(mask.bit_length()) if mask >> unit & 1)
