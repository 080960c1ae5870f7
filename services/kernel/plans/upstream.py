"""The units above each unit, directly or through others: they compute its lost input again.

Source: MECHANISMS R3, docs/decisions/0112.
"""

from __future__ import annotations

from holdfast.schemas.plans import Plan
from holdfast.services.kernel.plans.layout import writers
from holdfast.services.kernel.plans.reach import reach


def upstream(plan: Plan) -> dict[str, frozenset[str]]:
    """The names of all units above each unit, up to the sources."""
    return reach(_directly(plan))


def _directly(plan: Plan) -> dict[str, set[str]]:
    units = {(operator, unit.index): unit.name for unit in plan.units for operator in unit.operators}
    tasks = {operator.name: operator.parallelism for operator in plan.operators}
    found = {unit.name: set[str]() for unit in plan.units}
    for edge in plan.edges:
        for reader in range(tasks[edge.consumer]):
            below = units.get((edge.consumer, reader))
            for writer in writers(edge.routing, reader, tasks[edge.producer], tasks[edge.consumer]):
                above = units.get((edge.producer, writer))
                if below is not None and above is not None and above != below:
                    found[below].add(above)
    return found
