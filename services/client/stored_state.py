"""State of an operator as the newest checkpoints hold it, read from the log: no worker is asked.

A checkpoint log is what standbys have their images from, so what is read is what a standby would take over with.
Source: JOBS "holdfast state", decision 0212.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, NamedTuple

import msgspec
import polars as pl
import xxhash

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import Partition
from holdfast.services.client.state_keys import begins, candidates, encoded, parts_of
from holdfast.services.kernel.codecs.plain_values import plain_values
from holdfast.services.kernel.errors import USAGE, CommandFailed, StateCorrupted
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import OPERATORS
from holdfast.services.kernel.operators.remembered import Remembering
from holdfast.services.kernel.operators.user_remembered import user_entries
from holdfast.services.kernel.plans.layout import TaskLayout, UnitLayout, unit_layouts
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.view.door import Door
from holdfast.services.worker.checkpoint.restore import Rebuilt, rebuild

TRIES = 3
"""A checkpoint log may be trimmed while it is read."""


class Asked(NamedTuple):
    """A question about state.

    key: the only key to look up.
    prefix: beginning of the keys.
    table: the only table to read.
    """

    key: str | None = None
    prefix: str | None = None
    table: str | None = None


class Entry(msgspec.Struct, frozen=True):
    """A line of `holdfast state`.

    batch: batch of the checkpoint, equal for all entries of a task.
    """

    task: str
    batch: int
    table: str
    key: Any
    value: Any


class Answer(NamedTuple):
    """Entries, and whether there are more."""

    entries: list[Entry]
    more: bool


def read_state(door: Door, plan: Plan, operator: str, asked: Asked, limit: int) -> Answer:
    """The first entries of the state of an operator, task by task.

    Raises:
        CommandFailed: there is no such operator, it keeps no state, the key is none of its keys, or the job has ended.
    """
    found = list(islice(_Reader(door, plan, operator, asked).entries(), limit + 1))
    return Answer(found[:limit], len(found) > limit)


class _Reader:
    """Reads the state of one operator. Raises CommandFailed."""

    def __init__(self, door: Door, plan: Plan, operator: str, asked: Asked) -> None:
        self._door = door
        self._plan = plan
        self._asked = asked
        self._names = door.topics.job(plan.job, plan.generation)
        operators = {one.name: one for one in plan.operators if one.kind in OPERATORS}
        if operator not in operators:
            raise CommandFailed(f"job {plan.job} has no operator '{operator}'", suggest(operator, operators), USAGE)
        self._operator = operators[operator]
        if self._operator.kind == "spark":
            raise CommandFailed(f"'{operator}' runs on Spark, which keeps its state", "", USAGE)
        if not OPERATORS[self._operator.kind].stateful(self._operator.settings):
            kept = [name for name, one in operators.items() if OPERATORS[one.kind].stateful(one.settings)]
            hint = f"the job has state in {', '.join(kept)}" if kept else "no operator of the job does"
            raise CommandFailed(f"'{operator}' ({self._operator.kind}) keeps no state", hint, USAGE)
        if self._names.checkpoints not in door.log.topics():  # a console's door has been open for long
            raise CommandFailed(f"job {plan.job} ({plan.generation}) has ended, and its state with it")
        if asked.key is not None and asked.prefix is not None:
            raise CommandFailed("a KEY and a prefix were given", "leave one out", USAGE)
        self._prefix = None if asked.prefix is None else parts_of(asked.prefix)

    def entries(self) -> Iterator[Entry]:
        layouts = [
            (layout, task)
            for layout in unit_layouts(self._plan, self._names).values()
            for task in layout.tasks
            if task.operator.name == self._operator.name
        ]
        code = self._operator.kind == "python"
        key = None if code or self._asked.key is None or not layouts else self._encoded(layouts[0][1])
        for layout, task in layouts:
            if key is None or xxhash.xxh3_64_intdigest(key) % self._operator.parallelism == task.index:
                restored = self._restored(layout)
                found = self._of_code(task, restored) if code else self._of_kind(task, restored, key)
                yield from (one for one in found if self._asked.table in (None, one.table))

    def _encoded(self, task: TaskLayout) -> bytes:
        names = OPERATORS[self._operator.kind].key(self._operator.settings)
        assert self._asked.key is not None
        return encoded(self._asked.key, {name: task.input_fields[0][name] for name in names})

    def _of_code(self, task: TaskLayout, restored: _Restored) -> Iterator[Entry]:
        keys = None if self._asked.key is None else candidates(self._asked.key)
        names = restored.tables(task.name)
        for table, key, value in user_entries(restored.store.of_task(task.name), names, keys):
            if self._prefix is None or begins(key if isinstance(key, tuple) else (key,), self._prefix):
                yield Entry(task.name, restored.batch, table, key, value=value)

    def _of_kind(self, task: TaskLayout, restored: _Restored, key: bytes | None) -> Iterator[Entry]:
        made = catalogue.build(self._operator, task.input_fields, restored.store.of_task(task.name))
        if not isinstance(made, Remembering):
            return  # a top of final windows ranks the rows at once, and keeps none
        wanted = None if key is None else [key]
        for table, keys, values in made.remembered(restored.watermarks.get(task.name, NO_WATERMARK), wanted):
            for one, value in zip(_records(keys, values.height), _records(values, keys.height), strict=True):
                if self._prefix is None or begins(list(one.values()), self._prefix):
                    yield Entry(task.name, restored.batch, table, one, value=value)

    def _restored(self, layout: UnitLayout) -> _Restored:
        checkpoints = Partition(self._names.checkpoints, layout.unit.partition)
        skipped = read_admitted(self._door.log, self._door.topics).skipped(self._plan.generation).get(checkpoints, ())
        for left in reversed(range(TRIES)):
            image = MemoryImage()
            try:
                return _Restored.of(rebuild(self._door.log, checkpoints, image, skipped=skipped), image)
            except StateCorrupted as error:
                if not left:
                    raise CommandFailed(f"{error}", "try again") from None
        raise AssertionError


@dataclass(frozen=True, slots=True)
class _Restored:
    """A unit as of its newest checkpoint.

    watermarks: watermarks by task.
    """

    store: StateStore
    names: tuple[str, ...]
    batch: int
    watermarks: Mapping[str, int]

    @classmethod
    def of(cls, found: Rebuilt, image: MemoryImage) -> _Restored:
        batch, marks = (0, {}) if found.marker is None else (found.marker.b, found.marker.watermarks)
        return cls(StateStore(image, found.tables), tuple(sorted(found.tables)), batch, marks)

    def tables(self, task: str) -> list[str]:
        """Names of the tables of a task."""
        return [name.partition("/")[2] for name in self.names if name.partition("/")[0] == task]


def _records(rows: pl.DataFrame, height: int) -> Iterable[dict[str, Any]]:
    """Each row as a dict of JSON values.

    height: number of rows, for rows without columns.
    """
    if not rows.width:
        return repeat({}, height)
    names = rows.columns
    columns = [plain_values(rows[name]) for name in names]
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
