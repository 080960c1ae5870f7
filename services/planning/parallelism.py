"""Number of tasks of each operator, and the partitions of each source task.

Source: JOBS "parallelism", PROTOCOL 1 (fixed within a generation).
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.schemas.plans import Problem
from holdfast.services.kernel.operators import catalogue
from holdfast.services.planning.check import Checked


def tasks(checked: Checked) -> dict[str, int]:
    """The number of tasks by name, for everything that the plan needs."""
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
    return catalogue.OPERATORS[operator.kind].tasks(checked.settings(name), operator.parallelism, widest)


def problems(checked: Checked) -> Iterator[Problem]:
    """Problems of operators that ask for several tasks although all rows must be in one task."""
    for name, operator in checked.spec.operators.items():
        inputs = [checked.streams.get(producer) for producer in operator.inputs]
        windowed = all(one is None or one.windowed for one in inputs)  # an unknown input has a problem of its own
        why = catalogue.OPERATORS[operator.kind].one_task(checked.settings(name), windowed)
        if why and (operator.parallelism or 1) > 1:
            yield Problem(f"operators.{name}.parallelism", why, "leave it out")


def owners(tasks: int, partitions: int) -> tuple[tuple[int, ...], ...]:
    """The partitions of each task: partition p belongs to task p mod tasks."""
    return tuple(tuple(range(index, partitions, tasks)) for index in range(tasks))
