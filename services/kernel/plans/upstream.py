"""Which units send what a unit takes in, directly or through others: what has to compute again what it has lost.

Source: MECHANISMS R3, docs/decisions/0112.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from schemas.plans import Plan
from services.kernel.plans.layout import writers


def upstream(plan: Plan) -> dict[str, frozenset[str]]:
    """By unit, the names of all units above it, up to the sources."""
    direct, found = _directly(plan), dict[str, frozenset[str]]()
    for unit in plan.units:
        _reach(unit.name, direct, found)
    return {unit.name: found[unit.name] for unit in plan.units}


def _directly(plan: Plan) -> Mapping[str, set[str]]:
    units = {(operator, unit.index): unit.name for unit in plan.units for operator in unit.operators}
    tasks = {operator.name: operator.parallelism for operator in plan.operators}
    found = defaultdict[str, set[str]](set)
    for edge in plan.edges:
        for reader in range(tasks[edge.consumer]):
            below = units.get((edge.consumer, reader))
            for writer in writers(edge.routing, reader, tasks[edge.producer], tasks[edge.consumer]):
                above = units.get((edge.producer, writer))
                if below is not None and above is not None and above != below:
                    found[below].add(above)
    return found


def _reach(name: str, direct: Mapping[str, set[str]], found: dict[str, frozenset[str]]) -> frozenset[str]:
    """found: by unit, what is known already."""
    if name not in found:
        above = direct.get(name, set())
        found[name] = frozenset(above).union(*(_reach(one, direct, found) for one in sorted(above)))
    return found[name]
