"""State of each unit of a job that began with a savepoint.

Source: PROTOCOL 6 and 14.2. The state stays in a topic of its own while the job exists, so such a job can be computed
    again from its first batch like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from holdfast.schemas.plans import Plan
from holdfast.schemas.savepoints import Piece
from holdfast.services.kernel.errors import CommandFailed, StateCorrupted
from holdfast.services.kernel.plans.handed_over import handed_over
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.log.late.savepoints import pieces_of
from holdfast.services.log.protocol import Log


class Begun(NamedTuple):
    """A unit before the first batch of its job.

    tables: names of the tables, by number.
    """

    image: MemoryImage
    tables: list[str]
    watermarks: dict[str, int]


def begun(plan: Plan, pieces: Iterable[Piece]) -> dict[str, Begun]:
    """State of each unit, by name. Raises the errors of reading the pieces."""
    assert plan.seed is not None
    found, of_task = dict[str, Begun](), dict[str, Begun]()
    for unit in plan.units:
        tasks = [task_name(operator, unit.index) for operator in unit.operators]
        marks = {task: plan.seed.watermarks[task] for task in tasks if task in plan.seed.watermarks}
        one = found[unit.name] = Begun(MemoryImage(), [], marks)
        of_task |= dict.fromkeys(tasks, one)
    for piece in handed_over(plan, pieces):
        if (mine := of_task.get(piece.task)) is None:
            continue
        name = f"{piece.task}/{piece.table}"
        if name not in mine.tables:
            mine.tables.append(name)
        number = mine.tables.index(name).to_bytes(2, "big")
        mine.image.apply([(number + key, value) for key, value in piece.entries])
    return found


def stored(log: Log, plan: Plan) -> Iterator[Piece]:
    """The pieces of the savepoint with which the job began. Raises CommandFailed if the savepoint is deleted or
    damaged.
    """
    assert plan.seed is not None
    topic = plan.seed.topic
    if topic not in log.topics([topic]):
        raise CommandFailed(f"topic {topic} is gone, with the state of the savepoint with which the job began")
    try:
        yield from pieces_of(log, topic)
    except StateCorrupted as error:
        raise CommandFailed(str(error)) from None
