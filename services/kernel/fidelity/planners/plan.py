"""A replication plan: the units that get a replica, in the order in which a planner took them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.services.kernel.fidelity.loss import fidelity
from holdfast.services.kernel.fidelity.topology import Alive, Topology


@dataclass(frozen=True, slots=True)
class Step:
    """Units that were added at once, and the output fidelity with them and all before them. units: numbers, new ones
    alone.
    """

    units: tuple[int, ...]
    fidelity: float


@dataclass(frozen=True, slots=True)
class Grown:
    """A plan that grew step by step, so that it says what a smaller budget would have got, too.

    given: OF without any step: of the units that are there whatever the plan says.
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
    """Exactly these units are there, by number, and those that are fixed."""
    found = np.zeros(len(topology.units), dtype=np.bool_)
    found[[*units, *topology.fixed]] = True
    return found


def value(topology: Topology, units: Collection[int]) -> float:
    """OF of a plan: every unit that is not in it has failed."""
    return float(fidelity(topology, presence(topology, units)))


def names(topology: Topology, units: Sequence[int]) -> tuple[str, ...]:
    return tuple(topology.units[unit] for unit in units)
