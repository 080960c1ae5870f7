"""A job run again from its cuts, in memory: the expected rows of its sinks and its dead letters, batch by batch.

Source: PROTOCOL 14.2: the stable output is a function of the cut log. The kernel is the worker's, without the worker's
    shell: no Kafka, no checkpoints, no clock, one copy of every unit. The result is the reference for all deliveries of
    the workers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import repeat
from typing import NamedTuple

import polars as pl

from holdfast.schemas.answers import Answer
from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.cuts import Cut, Gap, TaskCuts, TaskRaised
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import JobTopics, Partition, generation_number
from holdfast.services.audit.begun import Begun
from holdfast.services.audit.skipped_batches import SkippedBatches
from holdfast.services.audit.sources import Taken, source_of
from holdfast.services.kernel.codecs.frames import MAX_FRAME_BYTES
from holdfast.services.kernel.dataflow.inputs import Inputs
from holdfast.services.kernel.dataflow.sink_records import sink_records
from holdfast.services.kernel.dataflow.unit import Produced, Unit
from holdfast.services.kernel.dataflow.unit_frames import Frames
from holdfast.services.kernel.dataflow.walk import Walked, ready, walk
from holdfast.services.kernel.plans.layout import RemoteInput, TaskLayout, UnitLayout, unit_layouts
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore

SETTLE_EVERY = 64
"""Number of batches between two moves of changed state to the image, which drop deleted keys."""
_ENTRIES_A_PIECE = 1_000
WhereRaised = Callable[[str, int], Mapping[str, TaskRaised] | None]
AnswersOf = Callable[[str, int], Mapping[str, Answer]]


class Row(NamedTuple):
    """A record as a sink's topic must hold it, as a tuple, because every row is hashed.

    value: empty where the record has none.
    partition: -1: the key decides.
    """

    value: bytes
    key: bytes | None = None
    partition: int = -1


@dataclass(slots=True)
class Outcome:
    """Deliveries of one unit for one batch.

    rows: delivered rows, by query.
    dropped: number of rows dropped as late, by the name of their count.
    lost: number of records deleted before they were read, by source.
    """

    unit: str
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    dead: list[DeadLetter] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)


class Replay:
    """The whole job, from its first batch, or with empty state from a later one.

    Args:
        first: the batch before the first one.
        begun: state as of that batch, by unit; None: it is empty.

    Raises:
        CodeUnavailable: a Python operator cannot be loaded here.

    raised: places where users' code raised, by unit and batch, from the cut log; None: the log has no such record.
    answers: answers that users' code awaited, by unit and batch.
    skipped: gaps of the batches that were computed.
    miscounted: gaps whose number of records differs from the number read.
    """

    def __init__(
        self,
        plan: Plan,
        topics: JobTopics,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        first: int = 0,
        begun: Mapping[str, Begun] | None = None,
    ) -> None:
        layouts = unit_layouts(plan, topics)
        number = generation_number(plan.generation)
        self._units = [
            _ReplayedUnit(layouts[name], plan, number, max_frame_bytes, first=first) for name in _in_order(layouts)
        ]
        if begun is not None and plan.seed is not None:
            for unit in self._units:
                unit.begin(begun[unit.name], plan.seed.sources)
        self._readers: dict[Partition, list[Inputs]] = defaultdict(list)
        for unit in self._units:
            for partition in unit.inputs:
                self._readers[partition].append(unit.inputs)
        self._appended: dict[Partition, int] = defaultdict(int)
        self.batch = first
        self.raised: WhereRaised = lambda unit, batch: None
        self.answers: AnswersOf = lambda unit, batch: {}
        self.skipped: list[Gap] = []

    @property
    def ended(self) -> bool:
        return all(unit.ended for unit in self._units)

    @property
    def uncut(self) -> list[str]:
        """The source tasks that may have a cut for the next batch."""
        return [name for unit in self._units for name in unit.uncut]

    @property
    def waiting(self) -> list[str]:
        """The units that could not process the last batch, because a cut above them is missing."""
        return [unit.name for unit in self._units if not unit.ended and unit.batch < self.batch]

    def process(self, taken: Mapping[str, Taken]) -> list[Outcome]:
        """Processes the next batch in every unit that is ready: a source task may be ahead of the others.

        Args:
            taken: the cut of that batch, by source task that has not ended and has one.

        Raises:
            OtherRecords: the records differ from those of the cut.
            Divergence: users' code raises at other places than in the cut log.
        """
        self.batch += 1
        return [
            unit.process(
                self.batch, self._append, self.raised(unit.name, self.batch), self.answers(unit.name, self.batch)
            )
            for unit in self._units
            if unit.ready(self.batch, taken)
        ]

    @property
    def miscounted(self) -> list[str]:
        return [text for unit in self._units for text in unit.skipping.miscounted]

    def skip(self, gaps: Mapping[str, Sequence[Gap]]) -> None:
        """Sets the batches that units have skipped, in order: precision `gap`."""
        for unit in self._units:
            self.skipped += unit.skipping.know(gaps.get(unit.name, ()), self.batch)

    def passes(self, cut: Cut) -> None:
        """Notes the cut of a batch that is not computed: the next batch begins behind it."""
        for unit in self._units:
            unit.passes(cut)

    def _append(self, partition: Partition, frame: bytes) -> None:
        """Carries frames between units, as Kafka does."""
        for reader in self._readers[partition]:
            reader.offer(partition, [(self._appended[partition], frame)], self.batch)
        self._appended[partition] += 1


class _ReplayedUnit:
    """A unit with its sources and its inputs."""

    def __init__(self, layout: UnitLayout, plan: Plan, generation: int, max_frame_bytes: int, first: int) -> None:
        self.name = layout.unit.name
        self.batch = first
        self._layout = layout
        self._store = StateStore(MemoryImage())
        self._unit = Unit(layout, self._store)
        self.skipping = SkippedBatches(self.name)
        self._sources = {task.name: source_of(task, plan) for task in layout.tasks if task.source is not None}
        self._frames = Frames(layout, generation, max_frame_bytes)
        self.inputs = Inputs(layout, generation, _behind(first), _refused)

    @property
    def ended(self) -> bool:
        return self._unit.ended

    @property
    def uncut(self) -> list[str]:
        return [name for name, source in self._sources.items() if not source.ended]

    def begin(self, begun: Begun, cuts: Mapping[str, TaskCuts]) -> None:
        """Begins with the state of a savepoint.

        cuts: state of the cuts at the savepoint, by source task.
        """
        self._store = StateStore(begun.image, begun.tables)
        self._unit = Unit(self._layout, self._store, begun.watermarks)
        for name, source in self._sources.items():
            source.behind(cuts[name])

    def passes(self, cut: Cut) -> None:
        if cut.task in self._sources:
            self._sources[cut.task].passes(cut)

    def ready(self, batch: int, taken: Mapping[str, Taken]) -> bool:
        for name in self.uncut:
            self._sources[name].taken = taken.get(name)
        return not self.ended and ready(batch, self._sources, self.inputs)

    def process(
        self,
        batch: int,
        append: Callable[[Partition, bytes], None],
        raised: Mapping[str, TaskRaised] | None,
        answers: Mapping[str, Answer],
    ) -> Outcome:
        if self.skipping.begins(self.batch):
            self._settle()
            self.skipping.keep(self.batch, self._store.image, self._unit.watermarks)
        self.batch = batch
        walked = walk(self._unit, batch, self._sources, self.inputs, raised, answers)
        self.inputs.forget_hashes(batch)
        for partition, frame in self._frames.encode(batch, walked.produced.sent, epoch=0):
            append(partition, frame)
        outcome = Outcome(self.name, dead=walked.dead, dropped=walked.produced.dropped, lost=walked.lost)
        _deliver(batch, walked.produced, outcome)
        if batch % SETTLE_EVERY == 0:
            self._settle()
        if self.skipping.skipping:
            self._skip(walked, outcome)
        return outcome

    def _skip(self, walked: Walked, outcome: Outcome) -> None:
        """Removes a skipped batch: the state does not include it, and rows not yet delivered never are."""
        outcome.dropped.clear()
        if self.skipping.skips(self.batch, walked.lost.total() + sum(count for count, _ in walked.edges.values())):
            outcome.rows.clear()
            outcome.dead.clear()
        if (before := self.skipping.ends(self.batch)) is not None:
            self._store = StateStore(before.image, self._store.names)
            self._unit = Unit(self._layout, self._store, before.watermarks)

    def _settle(self) -> None:
        capture = self._store.capture()
        while piece := capture.piece(_ENTRIES_A_PIECE):
            self._store.image.apply(piece)
        self._store.settle()


def _behind(batch: int) -> Marker | None:
    """Marker of inputs whose next batch follows this one; None for batch 0."""
    if not batch:
        return None
    return Marker(
        Id("replay", 0), None, 0, 0, b=batch, sweep_from=b"", sweep_to=None, tables=[], watermarks={}, positions=[]
    )


def sink_rows(task: TaskLayout, rows: pl.DataFrame, batch: int) -> list[Row]:
    """A sink task's records (PROTOCOL 9)."""
    found = sink_records(task, rows, batch)
    keys, partitions = found.keys or repeat(None), found.partitions or repeat(-1)
    values = (value or b"" for value in found.values)
    return [Row(value, key, partition) for value, key, partition in zip(values, keys, partitions, strict=False)]


def _deliver(batch: int, produced: Produced, outcome: Outcome) -> None:
    for task, rows, _ in produced.sinks:
        outcome.rows[task.operator.sink.query] += sink_rows(task, rows, batch)


def _refused(partition: Partition, offset: int, cause: str) -> None:
    raise AssertionError(f"{partition} at {offset}: a frame that was made here does not fit: {cause}")


def _in_order(layouts: Mapping[str, UnitLayout]) -> list[str]:
    """The units, each behind the units whose frames it reads."""
    writers: dict[str, set[str]] = defaultdict(set)
    for name, layout in layouts.items():
        for task in layout.tasks:
            for output in task.outputs:
                writers[output.topic].add(name)
    before = {
        name: {writer for topic in _topics_read(layout) for writer in writers[topic]}
        for name, layout in layouts.items()
    }
    return list(TopologicalSorter(before).static_order())


def _topics_read(layout: UnitLayout) -> set[str]:
    sources = (source for task in layout.tasks for source in task.inputs)
    return {source.partition.topic for source in sources if isinstance(source, RemoteInput)}
