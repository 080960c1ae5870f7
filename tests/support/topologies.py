"""The fidelity of a topology without some units, and every plan of a small one."""

from __future__ import annotations

import numpy as np

from holdfast.services.kernel.fidelity.loss import fidelity
from holdfast.services.kernel.fidelity.topology import Topology


def without(one: Topology, *failed: str, correlated: bool = True) -> float:
    """OF, or IC, when these units have failed."""
    return float(fidelity(one, one.alive(set(one.units) - set(failed)), correlated))


def every_plan(one: Topology) -> tuple[np.ndarray, np.ndarray]:
    """The OF of each set of units, and how many units it has."""
    count = len(one.units)
    alive = (np.arange(2**count)[:, None] >> np.arange(count) & 1).astype(np.bool_)
    return fidelity(one, alive), alive.sum(axis=1)
