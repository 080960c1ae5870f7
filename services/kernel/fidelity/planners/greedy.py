"""A ranking of single units by the loss when each fails alone: the first ones get a replica. It ignores MC-trees.

Source: MECHANISMS P7.
"""

from __future__ import annotations

import numpy as np

from holdfast.services.kernel.fidelity.loss import Standing, fidelity
from holdfast.services.kernel.fidelity.planners.plan import Grown, Step, presence
from holdfast.services.kernel.fidelity.topology import Topology

_SLICE = 128
"""The number of failures evaluated at once."""


def greedy(topology: Topology, budget: int) -> Grown:
    """The greedy plan, with a step for each unit."""
    allowed = set(topology.open)
    standing = Standing(topology, presence(topology, ()))
    base, steps = standing.fidelity, list[Step]()
    for unit in [one for one in ranked(topology) if one in allowed][:budget]:
        standing.add([unit])
        steps.append(Step((unit,), standing.fidelity))
    return Grown(tuple(steps), base)


def ranked(topology: Topology) -> tuple[int, ...]:
    """All units, by the OF that remains if only that unit fails; units with equal OF in the order of the topology."""
    left = np.empty(len(topology.units))
    for start in range(0, len(left), _SLICE):
        some = np.arange(start, min(start + _SLICE, len(left)))
        alive = np.ones((len(some), len(left)), dtype=np.bool_)
        alive[np.arange(len(some)), some] = False
        left[some] = fidelity(topology, alive)
    return tuple(int(unit) for unit in np.argsort(np.round(left, 12), kind="stable"))
