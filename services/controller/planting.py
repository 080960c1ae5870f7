"""Planting: the first checkpoint of each unit of a job that begins with a savepoint, before any copy is placed.

Source: PROTOCOL 6. What is planted is a run like any other, with the whole state as its delta: a copy that restores
cannot distinguish it from the run of a leader. A unit whose log holds a valid run is left alone, so a controller that
does it again, or a second one, changes nothing: of two first runs the one counts that comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from holdfast.schemas import checkpoints, progress
from holdfast.schemas.checkpoints import KEYS, Entry, Marker, Part, Position
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.schemas.progress import Progress
from holdfast.schemas.savepoints import Piece
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.decisions.answers import asking_units
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.decisions.cuts import beginning_of
from holdfast.services.decisions.decided import Author
from holdfast.services.decisions.raises import may_raise
from holdfast.services.kernel.plans.handed_over import handed_over
from holdfast.services.kernel.plans.layout import RemoteInput, UnitLayout, task_name, unit_layouts
from holdfast.services.log.late.savepoints import FLUSH_S, pieces_of
from holdfast.services.log.protocol import Appender, Log


def plant(log: Log, topics: JobTopics, plan: Plan, author: Author) -> None:
    """Returns once every unit has its first checkpoint. Blocks; raises Retriable, StateCorrupted."""
    assert plan.seed is not None
    layouts = unit_layouts(plan, topics)
    empty = [one for one in layouts.values() if not _has_run(log, Partition(topics.checkpoints, one.unit.partition))]
    if not empty:
        return
    appender = log.appender("savepoint")
    try:
        beds = [_Bed(layout, Partition(topics.checkpoints, layout.unit.partition), author.next()) for layout in empty]
        _sow(appender, beds, handed_over(plan, pieces_of(log, plan.seed.topic)))
        appender.flush(FLUSH_S)
        reading = may_raise(plan) | asking_units(plan)
        for bed in beds:
            marker = bed.marker(plan, bed.layout.unit.name in reading)
            appender.append(bed.partition, checkpoints.encode(marker))
            begun = Progress(bed.layout.unit.name, marker.b, marker.b, tuple(marker.positions))
            appender.append(Partition(topics.progress, 0), progress.encode(begun), key=begun.unit.encode())
        appender.flush(FLUSH_S)
    finally:
        appender.close()


@dataclass(slots=True)
class _Bed:
    """The first run of one unit on its way. tables: their names by number."""

    layout: UnitLayout
    partition: Partition
    id: Id
    tables: list[str] = field(default_factory=list)
    parts: int = 0
    entries: int = 0

    def part(self, piece: Piece) -> Part:
        name = f"{piece.task}/{piece.table}"
        if name not in self.tables:
            self.tables.append(name)
        number = self.tables.index(name).to_bytes(2, "big")
        entries: list[Entry] = [(number + key, value) for key, value in piece.entries]
        self.entries += len(entries) * piece.adds
        self.parts += 1
        return Part(self.id, self.parts - 1, False, checkpoints.pack(entries))

    def marker(self, plan: Plan, raises: bool) -> Marker:
        assert plan.seed is not None
        batch, tasks = plan.seed.batch, self.layout.tasks
        reads = raises or any(task.source is not None for task in tasks)
        marks = plan.seed.watermarks
        return Marker(
            id=self.id,
            prev=None,
            parts=self.parts,
            a=batch,
            b=batch,
            sweep_from=b"",
            sweep_to=None,
            tables=self.tables,
            watermarks={task.name: marks[task.name] for task in tasks if task.name in marks},
            positions=[Position(one.topic, one.index, 0) for one in sorted(_inputs(self.layout))],
            cuts=beginning_of(plan) if reads else None,
            counts={KEYS: self.entries},
        )


def _sow(appender: Appender, beds: Iterable[_Bed], pieces: Iterable[Piece]) -> None:
    of_task = {task_name(task.operator.name, task.index): bed for bed in beds for task in bed.layout.tasks}
    for piece in pieces:
        if (bed := of_task.get(piece.task)) is not None:
            appender.append(bed.partition, checkpoints.encode(bed.part(piece)))


def _inputs(layout: UnitLayout) -> set[Partition]:
    return {source.partition for task in layout.tasks for source in task.inputs if isinstance(source, RemoteInput)}


def _has_run(log: Log, partition: Partition) -> bool:
    """A log that was trimmed held one."""
    if log.offsets([partition], "start")[partition]:
        return True
    fold = CheckpointLog()
    for message in log.scan(partition):
        with suppress(msgspec.DecodeError):
            fold.read(message.offset(), checkpoints.decode(message.value() or b""))
    return fold.last is not None
