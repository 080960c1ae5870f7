"""State of a job that runs, followed in its checkpoint logs: first all of it, then what changes, up to one batch.

Source: PROTOCOL 6. Most of the state of a job is carried over while the job still runs. Once it is held at a batch,
only the entries are left that have changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from holdfast.schemas.checkpoints import Entry, Marker, unpack
from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.plans import Plan, UnitPlan
from holdfast.schemas.savepoints import Piece, Task
from holdfast.services.client.hold import Hold, check_batch
from holdfast.services.client.savepoints import pieces_of_table
from holdfast.services.kernel.errors import CommandFailed, PositionGone
from holdfast.services.kernel.operators.kind import EVERY_TASK
from holdfast.services.kernel.plans.handed_over import split_by
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.worker.checkpoint.restore import Rebuilt, newer_runs


class FollowedState:
    """The state of every unit of a job. Small tables that every task holds go last, whole."""

    def __init__(self, hold: Hold, plan: Plan) -> None:
        self._hold = hold
        self._plan = plan
        self._units = list[_Unit]()

    def base(self) -> Iterator[Piece]:
        """The state of each unit as of its newest checkpoint, which may be of another batch in each."""
        for unit in self._plan.units:
            found = self._hold.rebuilt(unit)
            one = _Unit(self._plan, unit, found)
            self._units.append(one)
            yield from one.whole(at_once=True)

    def changes(self) -> Iterator[Piece]:
        """Entries that have changed since the last call, each once with its newest value."""
        for one in self._units:
            one.read(self._hold)
            yield from one.changed()

    def rest(self, batch: int) -> Iterator[Piece]:
        """The last changes, once the job is held at the batch. Raises CommandFailed if the hold has ended."""
        yield from self.changes()
        for one in self._units:
            check_batch(one.unit, one.batch, batch)
            yield from one.whole(at_once=False)

    def tasks(self) -> dict[str, Task]:
        """Each task, as the manifest names it. Raises CommandFailed for a unit at its end."""
        return {name: task for one in self._units for name, task in one.tasks()}


@dataclass(slots=True)
class _Unit:
    """A unit.

    found: its image includes all yielded entries, and the small tables, which were not yielded.
    """

    plan: Plan
    unit: UnitPlan
    found: Rebuilt
    counts: dict[int, int] = field(default_factory=dict)
    _changed: dict[bytes, bytes | None] = field(default_factory=dict)
    _marker: Marker | None = None
    _next: int = 0

    def __post_init__(self) -> None:
        self._marker = self.found.marker
        self._next = self.found.next_offset

    @property
    def batch(self) -> int:
        return 0 if self._marker is None else self._marker.b

    def whole(self, *, at_once: bool) -> Iterator[Piece]:
        """Tables from the image: all but the small ones with at_once, else the small ones."""
        for number, (task, table) in enumerate(self._tables()):
            if self._small(task, table) is at_once:
                continue
            entries = self.found.image.scan(number.to_bytes(2, "big"))
            yield from self._counted(number, pieces_of_table(task, table, entries))

    def read(self, hold: Hold) -> None:
        """Reads the runs that came since the last read."""
        try:
            runs, self._next = newer_runs(hold.log, hold.checkpoints(self.unit), self.found.log, self._next)
        except PositionGone:  # the log of a small state is trimmed with every sweep
            self._compare(hold.rebuilt(self.unit))
            return
        for run in runs:
            self._marker = run.marker
            for part in run.parts:
                if not part.sweep:
                    self._changed.update(unpack(part.entries))

    def _compare(self, now: Rebuilt) -> None:
        """Sets the changes to the difference between the image and the present state, read again."""
        before, after = dict(self.found.image.scan(b"")), dict(now.image.scan(b""))
        differs: dict[bytes, bytes | None] = {key: value for key, value in after.items() if before.get(key) != value}
        self._changed = differs | dict.fromkeys(before.keys() - after.keys())
        self.found = replace(now, image=self.found.image)
        self._marker = now.marker
        self._next = now.next_offset

    def changed(self) -> Iterator[Piece]:
        """Changed entries, in pieces by their effect on the number of keys."""
        changed, self._changed = self._changed, {}
        keys = sorted(changed)
        before = self.found.image.get_many(keys)
        shares: dict[tuple[int, int], list[Entry]] = {}
        for key, was in zip(keys, before, strict=True):
            now = changed[key]
            if was != now:
                shares.setdefault((int.from_bytes(key[:2], "big"), _adds(was, now)), []).append((key, now))
        self.found.image.apply([*changed.items()])
        tables = [*self._tables()]
        for (number, adds), entries in shares.items():
            task, table = tables[number]
            if not self._small(task, table):
                yield from self._counted(number, pieces_of_table(task, table, entries, adds=adds))

    def tasks(self) -> Iterator[tuple[str, Task]]:
        tables = [*self._tables()]
        for operator in self.unit.operators:
            name = task_name(operator, self.unit.index)
            if self._marker is None:
                continue  # the task has processed nothing yet
            watermark = self._marker.watermarks.get(name, NO_WATERMARK)
            if watermark == END_WATERMARK:
                raise CommandFailed(f"{self.unit.name} has come to the end of its input: the job ends")
            own = {number: table for number, (task, table) in enumerate(tables) if task == name}
            count = sum(self.counts.get(number, 0) for number in own)
            yield name, Task(watermark, tuple(own.values()), count)

    def _counted(self, number: int, pieces: Iterable[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            self.counts[number] = self.counts.get(number, 0) + piece.adds * len(piece.entries)
            yield piece

    def _tables(self) -> Iterator[tuple[str, str]]:
        """(task, table) by number."""
        for name in () if self._marker is None else self._marker.tables:
            task, _, table = name.partition("/")
            yield task, table

    def _small(self, task: str, table: str) -> bool:
        """True for a table that every task of an operator gets if their number changes: its keys are known only with
        the changes of all tasks.
        """
        name = task.rpartition("-")[0]
        operator = next(one for one in self.plan.operators if one.name == name)
        return (split_by(operator) or {}).get(table) == EVERY_TASK


def _adds(was: bytes | None, now: bytes | None) -> int:
    return (now is not None) - (was is not None)
