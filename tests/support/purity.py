"""Frames of operators and whole jobs for given batches, to the byte, under whatever must not make a difference.

PROTOCOL 0.2: below the cut, everything is a pure function.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import xxhash

from holdfast.schemas.cuts import END_WATERMARK, LOADED_WATERMARK, NO_WATERMARK
from holdfast.schemas.decided import Id
from holdfast.schemas.frames import FLAG_END, HEADER_BYTES
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import ClusterTopics, Partition, generation_number
from holdfast.services.audit.recomputation import sink_rows
from holdfast.services.kernel.codecs.fields import DELETED, stream_schema
from holdfast.services.kernel.codecs.frames import FrameCodec, Sender
from holdfast.services.kernel.dataflow.fed import Fed
from holdfast.services.kernel.dataflow.input_partition import InputPartition
from holdfast.services.kernel.dataflow.routing import split
from holdfast.services.kernel.dataflow.source_records import SourceDecoder
from holdfast.services.kernel.dataflow.unit import Produced, Unit
from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.kernel.operators.operator import TIME
from holdfast.services.kernel.plans.layout import RemoteInput, TaskLayout, UnitLayout, unit_layouts
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.planning.loader import load
from holdfast.services.planning.plan import make_plan
from tests.support.operators import Harness

GENERATION = "0-abcdef"
TOPICS = ClusterTopics("t")
DISORDERLY_SHARE = 0.2
Rows = list[dict[str, Any]]
Sent = list[str]
"""Lines for each batch of each task: a hash of its payload, and what a person needs to see a difference."""


# -- one operator -----------------------------------------------------------------------------------------------------


def operator_sends(
    kind: str, params: Mapping[str, Any], inputs: Sequence[Stream], batches: Sequence[Sequence[Rows]], restore: bool
) -> Sent:
    """Frames of one task. batches: rows by slot; restore: from its image before every batch."""
    task = Harness(kind, params, *inputs)
    codec, sender = FrameCodec(stream_schema(task.plan.fields)), Sender(0, 0, 0)
    watermark = NO_WATERMARK
    sent: Sent = []
    for number, slots in enumerate([*batches, [[] for _ in inputs]], start=1):
        if restore:
            task.restore()
        watermark = max([watermark, *(row[TIME] for rows in slots for row in rows)])
        task.run(*slots, watermark=END_WATERMARK if number > len(batches) else watermark)
        outcome = task.outcomes[-1]
        frames = codec.encode(outcome.rows, sender, number, outcome.watermark or 0)
        sent.append(f"batch {number}: {_payloads(frames)} {outcome.late} {outcome.refused} {outcome.rows.rows()}")
    return sent


# -- a whole job ------------------------------------------------------------------------------------------------------


def job_sends(job: str, batches: Sequence[Mapping[str, Rows]], disorder: int | None, restore: bool) -> Sent:
    """Frames and rows of all units of a job.

    Args:
        batches: rows by source; a source's tasks take them in turn. Of a table, {DELETED: key} deletes a row.
        disorder: seed of an order in which the frames of several writers lie in a partition, with some of them twice;
            None: batch by batch.
        restore: every unit from its image, and its inputs from their positions, before every batch.
    """
    plan = planned(job)
    layouts = list(unit_layouts(plan, TOPICS.job(plan.job, GENERATION)).values())
    frames: dict[Partition, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    sent: Sent = []
    while layouts:
        ready = next(one for one in layouts if not _feeding(one, layouts))
        layouts.remove(ready)
        log = {p: in_some_order(writers, disorder) for p, writers in frames.items()}
        sent += _unit_sends(ready, plan, batches, log, frames, restore)
    return sent


def planned(job: str) -> Plan:
    return make_plan(
        load(job, "job.yaml"),
        generation=GENERATION,
        id=Id("test", 1),
        topics=None,
        first={},
        prefix=TOPICS.prefix,
        versions={},
        allow=["tests"],
    )


def in_some_order(writers: Mapping[int, Sequence[bytes]], disorder: int | None) -> list[bytes]:
    """Log of a partition: each writer's frames in their order, some of them again."""
    if disorder is None:
        return [
            frame for batch in zip(*(writers[number] for number in sorted(writers)), strict=True) for frame in batch
        ]
    chance, left = random.Random(disorder), {number: list(frames) for number, frames in writers.items()}
    log: list[bytes] = []
    while left:
        number = chance.choice(sorted(left))
        log.append(left[number].pop(0))
        if not left[number]:
            del left[number]
        if chance.random() < DISORDERLY_SHARE:
            log.append(chance.choice(log))
    return log


def _feeding(unit: UnitLayout, others: Sequence[UnitLayout]) -> list[str]:
    """Units whose frames it needs."""
    remote = [source for task in unit.tasks for source in task.inputs if isinstance(source, RemoteInput)]
    topics = {source.partition.topic for source in remote}
    return [one.unit.name for one in others for task in one.tasks if topics & {out.topic for out in task.outputs}]


def _unit_sends(
    layout: UnitLayout,
    plan: Plan,
    batches: Sequence[Mapping[str, Rows]],
    log: Mapping[Partition, Sequence[bytes]],
    frames: dict[Partition, dict[int, list[bytes]]],
    restore: bool,
) -> Sent:
    running, sent = _RunningUnit(layout, log), list[str]()
    sources = dict(_fed(layout, plan, batches))
    for batch in range(1, len(batches) + 2):
        if restore:
            running.restore(batch - 1)
        produced = running.process(batch, {task: fed[batch - 1] for task, fed in sources.items()})
        for one in produced.sent:
            sender = Sender(one.task.index, generation_number(GENERATION), epoch=batch if restore else 0)
            codec = FrameCodec(stream_schema(one.task.operator.fields))
            for target, rows in zip(one.output.targets, split(one.rows, one.output), strict=True):
                made = codec.encode(rows, sender, batch, one.watermark, FLAG_END if one.end else 0)
                frames[Partition(one.output.topic, target)][one.task.index] += made
                sent.append(f"{one.task.name} to {target}, batch {batch}: {_payloads(made)} {rows.rows()}")
        for task, rows, _ in produced.sinks:
            sent.append(f"{task.name}, batch {batch}: {sink_rows(task, rows, batch)}")
        sent.append(f"{layout.unit.name}, batch {batch}: {produced.late} late, dead: {produced.dead}")
    return sent


def _fed(layout: UnitLayout, plan: Plan, batches: Sequence[Mapping[str, Rows]]) -> Iterator[tuple[str, list[Fed]]]:
    """Rows of each source task of the unit for each batch; to the last, the end."""
    for task in layout.tasks:
        if task.source is None:
            continue
        tasks, table = task.operator.parallelism, task.operator.source.table
        decoder = SourceDecoder(task.operator)
        watermark, fed = LOADED_WATERMARK if table else NO_WATERMARK, list[Fed]()
        for batch in [*batches, {}]:
            given = batch.get(task.operator.name, [])[task.index :: tasks]
            keys = {index: row[DELETED] for index, row in enumerate(given) if DELETED in row}
            records = [None if index in keys else msgspec.json.encode(row) for index, row in enumerate(given)]
            rows = decoder.decode(records, [0 if table else -1] * len(records), keys).rows
            watermark = max([watermark, *rows[TIME].to_list()])
            fed.append(Fed(rows, watermark))
        fed[-1] = Fed(fed[-1].rows, END_WATERMARK)
        yield task.name, fed


class _RunningUnit:
    """A unit over its inputs, as a copy runs it. log: by partition."""

    def __init__(self, layout: UnitLayout, log: Mapping[Partition, Sequence[bytes]]) -> None:
        self._layout, self._log = layout, log
        self._image, self._names = MemoryImage(), list[str]()
        self._watermarks: dict[str, int] = {}
        self._inputs: dict[Partition, InputPartition] = {}
        self._open(0)

    def _open(self, done: int) -> None:
        self._store = StateStore(self._image, self._names)
        self._unit = Unit(self._layout, self._store, self._watermarks)
        self._inputs = {source.partition: self._read(source, done) for _, _, source in self._remote()}

    def _read(self, source: RemoteInput, done: int) -> InputPartition:
        """From its position after the batches done."""
        before = self._inputs.get(source.partition)
        offset, ended = (before.position(), before.ended) if before else (0, ())
        number = generation_number(GENERATION)
        opened = InputPartition(str(source.partition), source.writers, number, done, offset, ended)
        for at, frame in list(enumerate(self._log[source.partition]))[offset:]:
            opened.offer(at, frame)
        return opened

    def restore(self, done: int) -> None:
        """Restores as after a crash: what is left is the image, the marker, and the log."""
        capture = self._store.capture()
        while piece := capture.piece(100):
            self._image.apply(piece)
        self._store.settle()
        self._names, self._watermarks = self._store.names, dict(self._unit.watermarks)
        self._open(done)

    def process(self, batch: int, sources: Mapping[str, Fed]) -> Produced:
        taken = {partition: source.take(batch) for partition, source in self._inputs.items()}
        frames = {
            (task.name, slot): Fed(
                FrameCodec(stream_schema(task.input_fields[slot])).decode(taken[source.partition].payloads),
                taken[source.partition].watermark,
            )
            for task, slot, source in self._remote()
        }
        return self._unit.process(batch, sources, frames)

    def _remote(self) -> Iterator[tuple[TaskLayout, int, RemoteInput]]:
        for task in self._layout.tasks:
            for slot, source in enumerate(task.inputs):
                if isinstance(source, RemoteInput):
                    yield task, slot, source


def _payloads(frames: Sequence[bytes]) -> list[str]:
    return [xxhash.xxh3_64_hexdigest(frame[HEADER_BYTES:]) for frame in frames]
