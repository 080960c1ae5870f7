"""A job run again from its cuts, in memory: what its sinks and its dead letters must hold, batch by batch.

Source: PROTOCOL 14.2: the stable output is a function of the cut log. The same kernel as on a worker, and none of its
shell: no Kafka, no checkpoints, no clock, one copy of every unit. What comes out is the reference for all that workers
delivered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from schemas.cuts import END_WATERMARK, Cut, Range
from schemas.dead_letters import DeadLetter, of_record
from schemas.plans import REAL_TIME, Plan, SparkPlan
from schemas.topics import JobTopics, Partition, generation_number
from services.kernel.codecs.decoding import Decoded
from services.kernel.codecs.fields import stream_schema
from services.kernel.codecs.frames import MAX_FRAME_BYTES, FrameCodec
from services.kernel.codecs.marked import AT, RowDecoder, RowReader, lanes
from services.kernel.dataflow.inputs import Inputs
from services.kernel.dataflow.sending import Frames
from services.kernel.dataflow.sink_records import sink_records
from services.kernel.dataflow.source_records import Keys, SourceDecoder
from services.kernel.dataflow.unit import Fed, Produced, Unit
from services.kernel.errors import HoldfastError
from services.kernel.logs.recut import Recut
from services.kernel.operators.operator import TIME
from services.kernel.planning.layout import RemoteInput, TaskLayout, UnitLayout, spark_plan, unit_layouts
from services.kernel.state.image import MemoryImage
from services.kernel.state.keyed import StateStore

SETTLE_EVERY = 64
"""Batches between two moves of changed state to the image, where deleted keys end."""
_ENTRIES_A_PIECE = 1_000


class OtherRecords(HoldfastError):
    """The user's topic does not hold what was cut."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one range of a cut, in offset order. timestamps_ms: negative = none.

    keys: of records without a value, by position.
    """

    offsets: Sequence[int]
    values: Sequence[bytes | None]
    timestamps_ms: Sequence[int]
    keys: Keys


@dataclass(frozen=True, slots=True)
class Taken:
    """A cut, and the records of each of its ranges, in their order."""

    cut: Cut
    records: Sequence[Records]


class Row(NamedTuple):
    """A record as a sink's topic must hold it. partition -1: where the key sends it. A tuple: hashed for every row."""

    value: bytes
    key: bytes | None = None
    partition: int = -1


@dataclass(slots=True)
class Outcome:
    """What one unit delivers for one batch. rows: by query.

    dropped: rows dropped as late, lost: records that were gone before they were read, by source.
    """

    unit: str
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    dead: list[DeadLetter] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)


class Replay:
    """The whole job, from its first batch on.

    Raises:
        CodeUnavailable: a Python operator cannot be loaded here.
    """

    def __init__(self, plan: Plan, topics: JobTopics, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        layouts = unit_layouts(plan, topics)
        number = generation_number(plan.generation)
        self._units = [_ReplayedUnit(layouts[name], plan, number, max_frame_bytes) for name in _in_order(layouts)]
        self._readers: dict[Partition, list[Inputs]] = defaultdict(list)
        for unit in self._units:
            for partition in unit.inputs:
                self._readers[partition].append(unit.inputs)
        self._appended: dict[Partition, int] = defaultdict(int)
        self.batch = 0

    @property
    def ended(self) -> bool:
        return all(unit.ended for unit in self._units)

    @property
    def awake(self) -> list[str]:
        """The source tasks that may have a cut for the next batch."""
        return [name for unit in self._units for name in unit.awake]

    @property
    def waiting(self) -> list[str]:
        """The units that could not run the last batch, for want of a cut somewhere above them."""
        return [unit.name for unit in self._units if not unit.ended and unit.batch < self.batch]

    def process(self, taken: Mapping[str, Taken]) -> list[Outcome]:
        """The next batch, by every unit that can run it: a source task may be ahead of the others.

        Args:
            taken: by source task that is awake and has cut that batch.

        Raises:
            OtherRecords: the records are not those of the cut.
        """
        self.batch += 1
        return [unit.process(self.batch, taken, self._append) for unit in self._units if unit.ready(self.batch, taken)]

    def _append(self, partition: Partition, frame: bytes) -> None:
        """Carries frames between units, as Kafka does."""
        for reader in self._readers[partition]:
            reader.offer(partition, [(self._appended[partition], frame)], self.batch)
        self._appended[partition] += 1


class _ReplayedUnit:
    """One unit, its sources and its inputs."""

    def __init__(self, layout: UnitLayout, plan: Plan, generation: int, max_frame_bytes: int) -> None:
        self.name = layout.unit.name
        self.batch = 0
        self._store = StateStore(MemoryImage())
        self._unit = Unit(layout, self._store)
        self._tasks = layout.tasks
        self._sources = {task.name: _source(task, plan) for task in layout.tasks if task.source is not None}
        self._frames = Frames(layout, generation, max_frame_bytes)
        self.inputs = Inputs(layout, generation, None, _refused)

    @property
    def ended(self) -> bool:
        return self._unit.ended

    @property
    def awake(self) -> list[str]:
        return [name for name, source in self._sources.items() if not source.ended]

    def ready(self, batch: int, taken: Mapping[str, Taken]) -> bool:
        return not self.ended and all(name in taken for name in self.awake) and self.inputs.ready(batch)

    def process(self, batch: int, taken: Mapping[str, Taken], append: Callable[[Partition, bytes], None]) -> Outcome:
        outcome = Outcome(self.name)
        self.batch = batch
        fed: dict[str, Fed] = {}
        for name in self.awake:
            fed[name], refused = self._sources[name].take(taken[name])
            outcome.dead += refused
        frames = self.inputs.take(batch)
        self.inputs.forget_hashes(batch)
        produced = self._unit.process(batch, fed, frames)
        for partition, frame in self._frames.encode(batch, produced.sent, epoch=0):
            append(partition, frame)
        outcome.dead += produced.dead
        outcome.dropped += produced.dropped
        for task in self._tasks:
            if task.name in fed:
                outcome.lost[task.operator.name] += sum(r.lost for r in taken[task.name].cut.ranges)
        _deliver(batch, produced, outcome)
        if batch % SETTLE_EVERY == 0:
            self._settle()
        return outcome

    def _settle(self) -> None:
        capture = self._store.capture()
        while piece := capture.piece(_ENTRIES_A_PIECE):
            self._store.image.apply(piece)
        self._store.settle()


def _source(task: TaskLayout, plan: Plan) -> _Source | _Committed | _Rows:
    if task.operator.kind == "spark":
        spark = spark_plan(plan, task.operator.name)
        return _Rows(task, spark) if spark.mode == REAL_TIME else _Committed(task, spark.first_positions)
    return _Source(task, plan.spec["sources"][task.operator.name])


class _Committed:
    """What Spark has committed, for one task: Spark itself does not run again."""

    def __init__(self, task: TaskLayout, first: Mapping[str, Mapping[int, int]]) -> None:
        self._name = task.name
        self._codec = FrameCodec(stream_schema(task.operator.fields))
        self._recut = Recut(0, first, self._codec.check)
        self.ended = False

    def take(self, taken: Taken) -> tuple[Fed, list[DeadLetter]]:
        cut, (records,) = taken.cut, taken.records
        read = [self._recut.read(o, value or b"") for o, value in zip(records.offsets, records.values, strict=True)]
        found = [one for one in read if one is not None]
        (r,) = cut.ranges
        if r.stop > r.start and (not found or found[-1].offset != r.stop - 1):
            raise OtherRecords(f"{self._name}: no valid commit at offset {r.stop - 1}, where batch {cut.batch} was cut")
        self.ended = cut.final
        rows = self._codec.decode([payload for one in found for payload in one.payloads])
        dead = [letter for one in found for letter in one.dead_in(cut.batch)]
        return Fed(rows, END_WATERMARK if cut.final else cut.watermark), dead


class _Rows:
    """What Spark has written in real-time mode, for one task."""

    def __init__(self, task: TaskLayout, spark: SparkPlan) -> None:
        self._name, self._decoder = task.name, RowDecoder(spark)
        self._readers = {lane: RowReader(spark.output, 0) for lane in lanes(spark.first)}
        self.ended = False

    def take(self, taken: Taken) -> tuple[Fed, list[DeadLetter]]:
        cut, tables, dead = taken.cut, list[pl.DataFrame](), list[DeadLetter]()
        for r, records in zip(cut.ranges, taken.records, strict=True):
            if r.partition not in self._readers:
                continue
            tables.append(self._readers[r.partition].read(records.offsets, records.values))
            if r.stop > r.start and (not tables[-1].height or tables[-1].item(-1, AT) != r.stop - 1):
                raise OtherRecords(f"{self._name}: no row that counts at {r.stop - 1}, where batch {cut.batch} was cut")
            dead += self._decoder.dead(r.partition, tables[-1], cut.batch)
        self.ended = cut.final
        return Fed(self._decoder.rows(tables), END_WATERMARK if cut.final else cut.watermark), dead


class _Source:
    """One source task: from the records of a cut to rows and dead letters."""

    def __init__(self, task: TaskLayout, params: Mapping[str, Any]) -> None:
        assert task.source is not None
        self._origin, self._topic = task.operator.name, task.source.topic
        self._decoder = SourceDecoder(task.operator, params)
        self._newest: dict[int, int | None] = {}
        self.ended = False

    def take(self, taken: Taken) -> tuple[Fed, list[DeadLetter]]:
        cut = taken.cut
        values = [value for records in taken.records for value in records.values]
        stamps = [ms for records in taken.records for ms in records.timestamps_ms]
        bounds = np.cumsum([0, *(len(records.values) for records in taken.records)])
        keys = {
            int(first) + at: key
            for first, records in zip(bounds, taken.records, strict=False)
            for at, key in records.keys.items()
        }
        decoded = self._decoder.decode(values, stamps, keys)
        self._compare(taken, decoded, bounds)
        self.ended = cut.final
        positions = [
            (r.partition, offset)
            for r, records in zip(cut.ranges, taken.records, strict=True)
            for offset in (records.offsets if decoded.refused else ())
        ]
        dead = [self._dead(cut.batch, *positions[i], values[i] or b"", reason) for i, reason in decoded.refused]
        return Fed(decoded.rows, END_WATERMARK if cut.final else cut.watermark), dead

    def _compare(self, taken: Taken, decoded: Decoded, bounds: np.ndarray) -> None:
        """A cut names the newest event time of each partition: a topic that was created anew has another one."""
        times = decoded.rows[TIME].to_numpy()
        at = np.searchsorted(decoded.kept, bounds)
        for index, r in enumerate(taken.cut.ranges):
            known = [time for time in (self._newest.get(r.partition),) if time is not None]
            newest = max([*known, *times[at[index] : at[index + 1]].tolist()], default=None)
            if newest != r.newest_us and not r.lost:
                raise OtherRecords(self._differs(taken.cut, r, newest))
            self._newest[r.partition] = r.newest_us

    def _differs(self, cut: Cut, r: Range, newest: int | None) -> str:
        return (
            f"{self._topic}[{r.partition}], offsets {r.start} to {r.stop - 1}: these are not the records that were cut "
            f"as batch {cut.batch}: the newest event time is {newest} us, and was {r.newest_us}"
        )

    def _dead(self, batch: int, partition: int, offset: int, raw: bytes, reason: str) -> DeadLetter:
        return of_record(self._origin, reason, batch, self._topic, partition, offset, raw)


def sink_rows(task: TaskLayout, rows: pl.DataFrame, batch: int) -> list[Row]:
    """A sink task's records (PROTOCOL 9)."""
    found = sink_records(task, rows, batch)
    keys, partitions = found.keys or repeat(None), found.partitions or repeat(-1)
    return [Row(value, key, partition) for value, key, partition in zip(found.values, keys, partitions, strict=False)]


def _deliver(batch: int, produced: Produced, outcome: Outcome) -> None:
    for task, rows, _ in produced.sinks:
        outcome.rows[task.operator.params["query"]] += sink_rows(task, rows, batch)


def _refused(partition: Partition, offset: int, cause: str) -> None:
    raise AssertionError(f"{partition} at {offset}: a frame that was made here does not fit: {cause}")


def _in_order(layouts: Mapping[str, UnitLayout]) -> list[str]:
    """The units, each behind those whose frames it reads."""
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
