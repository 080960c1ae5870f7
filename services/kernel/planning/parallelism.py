"""How many tasks each operator has, and which partitions each source task owns.

Source: JOBS "parallelism", PROTOCOL 1 (fixed within a generation).
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.job_operators import Aggregate, Spark, Top
from schemas.plans import Problem
from services.kernel.planning.checking import Checked


def tasks(checked: Checked) -> dict[str, int]:
    """Tasks by name of what the plan needs."""
    found: dict[str, int] = {}
    for name in checked.graph.order:
        inputs = [found[slot.producer] for slot in checked.graph.slots[name] if slot.producer in found]
        if name in checked.graph.needed and len(inputs) == len(checked.graph.slots[name]):
            found[name] = _of(checked, name, max(inputs, default=1))
    return found


def _of(checked: Checked, name: str, widest: int) -> int:
    if name in checked.spec.sources:
        return checked.spec.sources[name].parallelism
    if name not in checked.spec.operators:
        return widest
    operator = checked.spec.operators[name]
    if isinstance(operator, Spark) or (isinstance(operator, Aggregate) and not operator.key):
        return 1
    return operator.parallelism or (1 if isinstance(operator, Top) else widest)


def ranking_problems(checked: Checked) -> Iterator[Problem]:
    """Rows that are compared with each other must meet in one task."""
    for name, operator in checked.spec.operators.items():
        stream = checked.streams.get(name)
        if isinstance(operator, Top) and stream is not None and (operator.parallelism or 1) > 1:
            source = checked.streams[operator.input]
            if not source.windowed:
                message = "without windows all rows are compared in one task"
                yield Problem(f"operators.{name}.parallelism", message, "leave it out")


def owners(tasks: int, partitions: int) -> tuple[tuple[int, ...], ...]:
    """Partition p belongs to task p mod tasks."""
    return tuple(tuple(range(index, partitions, tasks)) for index in range(tasks))
