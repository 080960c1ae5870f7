"""A replication plan: the units that get a replica, in the order in which a planner added them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.services.kernel.fidelity.loss import fidelity
from holdfast.services.kernel.fidelity.topology import Alive, Topology


@dataclass(frozen=True, slots=True)
class Step:
    """Units added at once.

    units: the numbers of the new units.
    fidelity: the output fidelity with them and all units added before, 0 to 1.
    """

    units: tuple[int, ...]
    fidelity: float


@dataclass(frozen=True, slots=True)
class Grown:
    """A plan grown step by step, so that it contains the plans of smaller budgets.

    steps: the steps, in order.
    given: the OF without any step, from the units that are present in every plan.
    """

    steps: tuple[Step, ...]
    given: float = 0.0

    @property
    def units(self) -> tuple[int, ...]:
        return tuple(unit for step in self.steps for unit in step.units)

    @property
    def fidelity(self) -> float:
        return self.steps[-1].fidelity if self.steps else self.given


def presence(topology: Topology, units: Collection[int]) -> Alive:
    """An array by unit number, True for these units and the fixed ones."""
    found = np.zeros(len(topology.units), dtype=np.bool_)
    found[[*units, *topology.fixed]] = True
    return found


def value(topology: Topology, units: Collection[int]) -> float:
    """The OF of a plan if every unit outside the plan fails."""
    return float(fidelity(topology, presence(topology, units)))


def names(topology: Topology, units: Sequence[int]) -> tuple[str, ...]:
    return tuple(topology.units[unit] for unit in units)
