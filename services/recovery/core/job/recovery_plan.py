"""Plan of the order in which failed queries come back if not all failed units have room, by profit density.

Source: MECHANISMS R6 (Su and Zhou 2017, algorithm 1). Choosing the queries of most priority that fit is a set-union
knapsack, which is NP-hard; density is a good order and a fast one. Pure: the inputs are failed units and the number of
slots, the output is queries in their order. Every worker that arrives and every further failure leads to a new plan;
slots that no query fits into stay for the next plan. Slots have kinds: a unit of Spark takes a slot of a driver, and a
query fits if it fits into the slots of each kind.

A unit that several failed queries need counts for each of them with its share only. Once a query is chosen, its units
cost the others nothing. The shares of all other units stay unchanged, since every query that needs them is still
failed. So only queries that share a unit with the chosen one change, and 1,000 queries over 10,000 units are planned
within a second.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from holdfast.services.kernel.plurals import plural

NO_KINDS: Mapping[str, str] = MappingProxyType({})
"""All units need workers of one kind."""
ALIKE: Mapping[str, float] = MappingProxyType({})
"""All units have the same consumption."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query.

    units: all units that the query needs.
    priority: of the job file; a query with twice the priority is worth twice as much.
    """

    units: frozenset[str]
    priority: float = 1.0


@dataclass(frozen=True, slots=True)
class Choice:
    """A step of a plan.

    units: the units that come back for this query after the steps before, ordered by name.
    density: priority per slot when the query was chosen, with consumption and shares of common units counted.
    """

    query: str
    units: tuple[str, ...]
    density: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of restores.

    chosen: the steps in their order.
    waiting: the density of each failed query that has to wait.
    """

    chosen: tuple[Choice, ...]
    waiting: Mapping[str, float]


def plan(
    queries: Mapping[str, Query],
    costs: Mapping[str, int],
    slots: int | Mapping[str, int],
    kinds: Mapping[str, str] = NO_KINDS,
    consumption: Mapping[str, float] = ALIKE,
) -> Plan:
    """The plan for the queries that need a failed unit; of equal density the one named first is first.

    Args:
        costs: slots that each failed unit takes, one or more; a unit that runs, or is about to, is not named.
        slots: free ones of the workers that are there; by kind, if units need several.
        kinds: of the workers that a unit needs, where it is another one than most do.
        consumption: what a slot of a unit counts in densities, where it is not 1. Whether a query fits is a matter of
            slots alone.

    Raises ValueError if a cost is not positive.
    """
    if wrong := [unit for unit, cost in costs.items() if cost < 1]:
        raise ValueError(f"cost of unit {wrong[0]}: {plural(costs[wrong[0]], 'slot')}; it must be one at least")
    failed = {name: query.units & costs.keys() for name, query in queries.items() if query.units & costs.keys()}
    needed: dict[str, list[int]] = {}
    for index, units in enumerate(failed.values()):
        for unit in units:
            needed.setdefault(unit, []).append(index)
    names, missing = list(failed), [set(units) for units in failed.values()]
    shares = {unit: costs[unit] * consumption.get(unit, 1.0) / len(users) for unit, users in needed.items()}
    priorities = [queries[name].priority for name in names]
    open_ = np.ones(len(names), dtype=bool)
    left = {"": slots} if isinstance(slots, int) else dict(slots)
    of = {kind: {u: cost for u, cost in costs.items() if kinds.get(u, "") == kind} for kind in _kinds(costs, kinds)}
    price = {kind: np.array([_total(units, own) for units in missing], dtype=np.int64) for kind, own in of.items()}
    density = np.array([_density(units, shares, worth) for units, worth in zip(missing, priorities, strict=True)])
    chosen = list[Choice]()
    while (fits := np.logical_and.reduce([open_, *(price[kind] <= left.get(kind, 0) for kind in of)])).any():
        best = int(np.argmax(np.where(fits, density, -math.inf)))
        back = tuple(sorted(missing[best]))
        chosen.append(Choice(names[best], back, float(density[best])))
        left = {kind: free - (int(price[kind][best]) if kind in of else 0) for kind, free in left.items()}
        for index in {index for unit in back for index in needed[unit]}:
            missing[index].difference_update(back)
            open_[index] = bool(missing[index])
            for kind, own in of.items():
                price[kind][index] = _total(missing[index], own)
            density[index] = _density(missing[index], shares, priorities[index])
    waiting = {names[index]: float(density[index]) for index in np.flatnonzero(open_)}
    return Plan(tuple(chosen), waiting)


def _density(units: Collection[str], shares: Mapping[str, float], priority: float) -> float:
    """Returns priority per share; the sum is exact, so that equal densities are equal on every replica."""
    shared = math.fsum(shares[unit] for unit in units)
    return priority / shared if shared else math.inf


def _total(units: Collection[str], costs: Mapping[str, int]) -> int:
    """Sum of the costs of the units that are named."""
    return sum(costs.get(unit, 0) for unit in units)


def _kinds(units: Iterable[str], kinds: Mapping[str, str]) -> list[str]:
    return sorted({kinds.get(unit, "") for unit in units})
