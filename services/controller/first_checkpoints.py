"""The first checkpoints of each unit of a job that begins with a savepoint.

Source: PROTOCOL 6. A planted run is a run like any other, with the whole state as its delta: a copy that restores
cannot distinguish it from the run of a leader. A unit whose log holds a valid run is left alone, so planting again, or
by a second controller, changes nothing: of two first runs, the earlier one in the log counts. A job that stands by has
a first run with most of its state, and gets a second one with the rest when it takes over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
from holdfast.services.decisions.decided import Author
from holdfast.services.decisions.raises import may_raise
from holdfast.services.decisions.shares import beginning_of
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.plans.handed_over import handed_over
from holdfast.services.kernel.plans.layout import RemoteInput, UnitLayout, task_name, unit_layouts
from holdfast.services.log.late.savepoints import FLUSH_S, base_of, pieces_of
from holdfast.services.log.protocol import Appender, Log

STANDING_BY = 1
"""Batch of the first checkpoint of a job that stands by; the checkpoint of its beginning has a later batch."""
FIRST_TABLE = b"\0\0"
"""Lower bound of all keys, so that a slice of the sweep up to it is empty."""


class FirstCheckpoints:
    """Plants checkpoints for one replica of the controller.

    Each method blocks, and raises Retriable, StateCorrupted.
    """

    def __init__(self, log: Log, author: Author) -> None:
        self._log = log
        self._author = author
        self._known: dict[str, dict[Partition, _Planted]] = {}

    def base(self, topics: JobTopics, plan: Plan) -> None:
        """Writes the first checkpoint of each unit that has none."""
        assert plan.seed is not None
        layouts = {_checkpoints(topics, one): one for one in unit_layouts(plan, topics).values()}
        known = self._read(plan, layouts)
        empty = [partition for partition in layouts if not known[partition].begun]
        beds = [_Bed(layouts[partition], partition, self._author.next()) for partition in empty]
        batch = STANDING_BY if plan.stands_by else plan.seed.batch
        self._plant(topics, plan, beds, base_of(self._log, plan.seed.topic), batch)

    def rest(self, topics: JobTopics, plan: Plan, behind: int) -> None:
        """Writes, for each unit of a job that stood by, a checkpoint of the batch after which the job begins.

        plan: the plan that lets the job take over.
        behind: offset in the topic of the savepoint from which the later changes follow.
        """
        assert plan.seed is not None
        beds = list[_Bed]()
        layouts = {_checkpoints(topics, one): one for one in unit_layouts(plan, topics).values()}
        for partition, known in self._read(plan, layouts).items():
            layout, last = layouts[partition], known.log.last
            if last is None:
                raise StateCorrupted(f"{layout.unit.name} stood by without a checkpoint")
            if last.b < plan.seed.batch:
                counts, tables = last.counts.get(KEYS, 0), list(last.tables)
                beds.append(_Bed(layout, partition, self._author.next(), tables, entries=counts, before=last))
        self._plant(topics, plan, beds, pieces_of(self._log, plan.seed.topic, behind), plan.seed.batch)

    def forget(self, generation: str) -> None:
        """Forgets a generation that is over."""
        self._known.pop(generation, None)

    def _plant(self, topics: JobTopics, plan: Plan, beds: Sequence[_Bed], pieces: Iterable[Piece], batch: int) -> None:
        if not beds:
            return
        appender = self._log.appender("savepoint")
        try:
            _sow(appender, beds, handed_over(plan, pieces))
            appender.flush(FLUSH_S)
            reading = may_raise(plan) | asking_units(plan)
            for bed in beds:
                marker = bed.marker(plan, batch, bed.layout.unit.name in reading)
                appender.append(bed.partition, checkpoints.encode(marker))
                if not plan.stands_by:
                    begun = Progress(bed.layout.unit.name, marker.b, marker.b, tuple(marker.positions))
                    appender.append(Partition(topics.progress, 0), progress.encode(begun), key=begun.unit.encode())
            appender.flush(FLUSH_S)
        finally:
            appender.close()
        if plan.stands_by:  # read now, so that during the pause only newer records remain to be read
            self._read(plan, [bed.partition for bed in beds])

    def _read(self, plan: Plan, partitions: Collection[Partition]) -> dict[Partition, _Planted]:
        """Reads the logs of units that have no leader yet; one request finds the start offsets of all logs."""
        of_job, starts = self._known.setdefault(plan.generation, {}), self._log.offsets(partitions, "start")
        for partition in partitions:
            known = of_job.setdefault(partition, _Planted())
            known.trimmed |= starts[partition] > 0
            if not known.trimmed:
                self._scan(partition, known)
        return {partition: of_job[partition] for partition in partitions}

    def _scan(self, partition: Partition, known: _Planted) -> None:
        for message in self._log.scan(partition, known.next):
            known.next = message.offset() + 1
            with suppress(msgspec.DecodeError):
                known.log.read(message.offset(), checkpoints.decode(message.value() or b""))


@dataclass(slots=True)
class _Planted:
    """A checkpoint log as far as it was read.

    next: the first offset that was not read.
    trimmed: true if records are trimmed, so that the log has held a run.
    """

    log: CheckpointLog = field(default_factory=CheckpointLog)
    next: int = 0
    trimmed: bool = False

    @property
    def begun(self) -> bool:
        return self.trimmed or self.log.last is not None


@dataclass(slots=True)
class _Bed:
    """A run of one unit under way.

    tables: names of the tables by number.
    before: the marker that the run follows.
    """

    layout: UnitLayout
    partition: Partition
    id: Id
    tables: list[str] = field(default_factory=list)
    parts: int = 0
    entries: int = 0
    before: Marker | None = None

    def part(self, piece: Piece) -> Part:
        name = f"{piece.task}/{piece.table}"
        if name not in self.tables:
            self.tables.append(name)
        number = self.tables.index(name).to_bytes(2, "big")
        entries: list[Entry] = [(number + key, value) for key, value in piece.entries]
        self.entries += len(entries) * piece.adds
        self.parts += 1
        return Part(self.id, self.parts - 1, False, checkpoints.pack(entries))

    def marker(self, plan: Plan, batch: int, raises: bool) -> Marker:
        assert plan.seed is not None
        tasks, before = self.layout.tasks, self.before
        reads = raises or any(task.source is not None for task in tasks)
        marks = plan.seed.watermarks
        return Marker(
            id=self.id,
            prev=None if before is None else before.id,
            parts=self.parts,
            a=batch if before is None else before.b,
            b=batch,
            sweep_from=b"",
            sweep_to=None if before is None else FIRST_TABLE,
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


def _checkpoints(topics: JobTopics, layout: UnitLayout) -> Partition:
    return Partition(topics.checkpoints, layout.unit.partition)
