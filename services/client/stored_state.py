"""Tables of a Python operator as the newest checkpoints hold them, read from the log: no worker is asked.

Source: JOBS "holdfast state".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.schemas.plans import OperatorPlan, Plan
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import USAGE, CommandFailed, StateCorrupted
from holdfast.services.kernel.operators.user_state import Key, KeyedTable
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.keyed import StateStore
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.log.jobs import read_admitted
from holdfast.services.view.door import Door
from holdfast.services.worker.checkpoint.restoring import Rebuilt, rebuild

TRIES = 3
"""A checkpoint log may be trimmed while it is read."""


class Entry(msgspec.Struct, frozen=True):
    """A line of `holdfast state`. batch: of the checkpoint, the same for all entries of a task."""

    task: str
    batch: int
    table: str
    key: Any
    value: Any


def entries(door: Door, plan: Plan, operator: str, keys: Iterable[Key] | None, table: str | None) -> Iterator[Entry]:
    """Entries of the tables of an operator, task by task, in the order of their encoded keys.

    Args:
        keys: those that are looked up; None: all.
        table: the only one that is read; None: all.

    Raises:
        CommandFailed: there is no such operator, it is none in Python, or the job has ended.
    """
    _check(door, plan, operator)
    looked_up = None if keys is None else list(keys)
    for unit in plan.units:
        if operator not in unit.operators:
            continue
        task, image = task_name(operator, unit.index), MemoryImage()
        found = _newest(door, plan, unit.partition, image)
        store = StateStore(image, found.tables)
        batch = 0 if found.marker is None else found.marker.b
        for name in sorted(found.tables):
            owner, _, short = name.partition("/")
            if owner == task and table in (None, short):
                for key, value in _of(KeyedTable(store.table(name)), looked_up):
                    yield Entry(task, batch, short, key, value)


def _check(door: Door, plan: Plan, operator: str) -> None:
    kinds = {one.name: one for one in plan.operators if one.kind != "sink"}
    if operator not in kinds:
        raise CommandFailed(f"job {plan.job} has no operator '{operator}'", suggest(operator, kinds), USAGE)
    if (kind := kinds[operator].kind) != "python":
        raise CommandFailed(
            f"'{operator}' is of the kind {kind}: only tables of Python operators can be read",
            _of_python(plan.operators),
            USAGE,
        )
    if door.topics.job(plan.job, plan.generation).checkpoints not in door.present:
        raise CommandFailed(f"job {plan.job} ({plan.generation}) has ended, and its state with it")


def _of_python(operators: Iterable[OperatorPlan]) -> str:
    names = [one.name for one in operators if one.kind == "python"]
    return f"the job has {', '.join(names)}" if names else "the job has none"


def _newest(door: Door, plan: Plan, partition: int, image: MemoryImage) -> Rebuilt:
    checkpoints = Partition(door.topics.job(plan.job, plan.generation).checkpoints, partition)
    skipped = read_admitted(door.log, door.topics).skipped(plan.generation).get(checkpoints, ())
    for left in reversed(range(TRIES)):
        try:
            return rebuild(door.log, checkpoints, image, skipped=skipped)
        except StateCorrupted as error:
            image.close()
            if not left:
                raise CommandFailed(f"{error}", "try again") from None
    raise AssertionError


def _of(table: KeyedTable, keys: list[Key] | None) -> Iterator[tuple[Any, Any]]:
    if keys is None:
        yield from table.items()
        return
    for key, value in zip(keys, table.get_many(keys, msgspec.UNSET), strict=True):
        if value is not msgspec.UNSET:
            yield key, value
