"""Checkpoints and trims: a marker says what is there, and what is left restores the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from holdfast.schemas import checkpoints, cuts
from holdfast.schemas.assignments import split_unit_key
from holdfast.schemas.checkpoints import Anchor, Marker
from holdfast.schemas.cuts import CutsSnapshot, Snapshot
from holdfast.schemas.frames import FLAG_END, FLAG_TENTATIVE, Header, unpack
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.checkpoint_log import CheckpointLog, Run, restore
from holdfast.services.decisions.cuts import of_plan
from holdfast.services.decisions.raises import may_raise
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.plans.layout import commit_logs, task_name, unit_layouts
from holdfast.services.kernel.state.image import MemoryImage
from tests.simulation.checks.generation import Generation
from tests.simulation.checks.global_checkpoints import GlobalCheckpoints, trimmed_too_far
from tests.simulation.faults.retention import Retention
from tests.simulation.kafka.broker import Trimmed, Written
from tests.simulation.kafka.names import TOPICS
from tests.simulation.observers.images import State, named
from tests.simulation.processes.cluster import Cluster


class CheckpointCheck:
    """Folds the checkpoint logs of a generation along the trace and looks at each trim."""

    def __init__(self, cluster: Cluster, generation: Generation) -> None:
        self._cluster, self._generation = cluster, generation
        units = range(len(generation.plan.units))
        partitions = [Partition(generation.topics.checkpoints, index) for index in units]
        generation.folds = {partition: CheckpointLog() for partition in partitions}
        self._records: dict[Partition, list[tuple[int, checkpoints.CheckpointRecord]]] = {p: [] for p in partitions}
        self._images = {partition: MemoryImage() for partition in partitions}
        self._acked: dict[tuple[str, Partition], int] = {}
        self._begins = generation.plan.first_batch
        self._arrivals = defaultdict[tuple[Partition, int], _Arrivals](lambda: _Arrivals(self._begins))
        self._outputs = {
            name: [
                (Partition(output.topic, target), task.index)
                for task in layout.tasks
                for output in task.outputs
                for target in output.targets
            ]
            for name, layout in unit_layouts(generation.plan, generation.topics).items()
        }
        self._sources = {
            name: {task.name for task in layout.tasks if task.source is not None}
            for name, layout in unit_layouts(generation.plan, generation.topics).items()
        }
        self.states: dict[tuple[str, int], State] = {}
        self.globals = GlobalCheckpoints(generation.plan)
        self._cuts = of_plan(generation.plan)
        self._snapshots: dict[int, CutsSnapshot] = {}
        self.retention = Retention(generation.plan, generation.topics, self.globals.assigned)

    def run(self) -> Iterator[str]:
        written, trims = self._cluster.broker.written, self._cluster.broker.trims
        done = 0
        for trim in trims:
            while done < trim.seen:
                yield from self._record(written[done])
                done += 1
            yield from self._trim(trim)
        for one in written[done:]:
            yield from self._record(one)
        if self._generation.ended == "drained":
            folds = ((self._generation.unit_of(at), fold) for at, fold in self._generation.folds.items())
            yield from self.globals.left_behind({unit: fold.line for unit, fold in folds})

    def _record(self, one: Written) -> Iterator[str]:
        if one.partition.topic.startswith(f"{self._generation.topics.root}.data."):
            header = unpack(one.value)
            if header.flags & FLAG_TENTATIVE:
                return
            self._arrivals[one.partition, header.writer].add(header)
            self.retention.sent(one)
        if one.partition.topic == self._generation.topics.cuts:
            self._cut(one)
        if one.partition.topic == TOPICS.assignments:
            yield from self._decided(one)
        if one.partition.topic == TOPICS.heartbeats and self.retention.on:
            logs = {self._generation.unit_of(at): fold for at, fold in self._generation.folds.items()}
            yield from self.retention.beat(one, logs)
        if one.partition not in self._records:
            return
        try:
            record = checkpoints.decode(one.value)
        except msgspec.DecodeError:
            return
        self._records[one.partition].append((one.offset, record))
        fold = self._generation.folds[one.partition]
        line = fold.line
        run = fold.read(one.offset, record)
        if run is not None:
            yield from self._valid(one.partition, run)
        elif fold.line != line:
            self._rolled_back(one.partition, fold)

    def _decided(self, one: Written) -> Iterator[str]:
        named = [unit.name for unit in self._generation.plan.units]
        before = {unit: self.retention.change(unit) for unit in named}
        complete, line = self.globals.newest
        yield from self.globals.decide(one.value)
        yield from self.retention.decided(before, complete, line)

    def _rolled_back(self, partition: Partition, fold: CheckpointLog) -> None:
        unit = self._generation.unit_of(partition)
        self._images[partition] = self.globals.roll_back(unit, fold.last_b, fold.line)
        self._acked = {key: offset for key, offset in self._acked.items() if key[0] != unit}

    def _cut(self, one: Written) -> None:
        """Notes the valid snapshots of the cut log by where they stand."""
        record = cuts.decode(one.value)
        before = self._cuts.snapshots
        self._cuts.read(one.offset, record)
        if self._cuts.snapshots != before:
            assert isinstance(record, Snapshot)
            self._snapshots[record.state.upto] = record.state

    def _valid(self, partition: Partition, run: Run) -> Iterator[str]:
        for part in run.parts:
            self._images[partition].apply(checkpoints.unpack(part.entries))
        unit = self._generation.unit_of(partition)
        state = named(self._images[partition], run.marker.tables)
        if self.states.setdefault((unit, run.marker.b), state) != state:
            yield f"again: {unit} has gone back, and has another state at batch {run.marker.b} than before"
        self.globals.mark(unit, run.marker, self._images[partition])
        for target, writer in self._outputs[unit]:
            if self._arrivals[target, writer].upto < run.marker.b:
                yield f"marker: {unit} marks batch {run.marker.b}, of which not all frames are on {target}"
        for task, cut in (run.marker.cuts.tasks if run.marker.cuts is not None else {}).items():
            # One behind is read again by a restart: another task's later cut may come before it in the log.
            planted = run.marker.b <= self._begins
            if task in self._sources[unit] and cut.batch > run.marker.b and not cut.final and not planted:
                yield f"marker: {unit} marks batch {run.marker.b} with the cuts as of batch {cut.batch} of {task}"
        for position in run.marker.positions:
            key = (unit, Partition(position.topic, position.partition))
            if position.offset < self._acked.get(key, 0):
                yield f"ack: {unit} went back on {key[1]} from {self._acked[key]} to {position.offset}"
            self._acked[key] = position.offset

    def _trim(self, trim: Trimmed) -> Iterator[str]:
        if trim.partition in self._records:
            yield from self._checkpoint_trim(trim)
        elif trim.partition.topic == self._generation.topics.cuts:
            yield from self._cut_trim(trim)
        elif trim.partition.topic in (logs := commit_logs(self._generation.plan)):
            yield from self._commit_trim(trim, logs[trim.partition.topic])
        elif trim.partition.topic.startswith(f"{self._generation.topics.root}.data."):
            for unit in self._generation.reading.get(trim.partition, ()):
                if self.retention.on:
                    yield from self.retention.trimmed(trim, unit, self._generation.fold(unit))
                    continue
                needed = _needed(self._generation.fold(unit).last, trim.partition)
                if trim.upto > needed:
                    yield f"trim: {trim.author} trimmed {trim.partition} to {trim.upto}, {unit} needs {needed}"
                back = _needed(self.globals.needed(unit), trim.partition)
                yield from trimmed_too_far(self.globals, unit, trim, back)
            self.retention.forget(trim)

    def _cut_trim(self, trim: Trimmed) -> Iterator[str]:
        """The log begins with a state that a valid snapshot says, and no unit restarts before it."""
        if trim.upto not in self._snapshots:
            yield f"cut trim: {trim.author} trimmed {trim.partition} to {trim.upto}, which no valid snapshot names"
        raising = may_raise(self._generation.plan)
        for unit, tasks in self._sources.items():
            last = self._generation.fold(unit).last
            needed = 0 if last is None or last.cuts is None else last.cuts.upto
            if (tasks or unit in raising) and trim.upto > needed:
                yield f"cut trim: {trim.author} trimmed {trim.partition} to {trim.upto}, {unit} restarts at {needed}"
            if tasks or unit in raising:
                back = self.globals.needed(unit)
                at = 0 if back is None or back.cuts is None else back.cuts.upto
                yield from trimmed_too_far(self.globals, unit, trim, at)

    def _commit_trim(self, trim: Trimmed, operator: str) -> Iterator[str]:
        """The commit log begins with a commit that a snapshot of the cut log names, and that no cut still needs."""
        task = task_name(operator, 0)
        named = {state.tasks[task].ranges[0].stop - 1 for state in self._snapshots.values()}
        if trim.upto not in named:
            yield f"commit trim: {trim.author} trimmed {trim.partition} to {trim.upto}, which no valid snapshot names"
        for unit, tasks in self._sources.items():
            last = self._generation.fold(unit).last if task in tasks else None
            needed = 0 if last is None or last.cuts is None else last.cuts.tasks[task].ranges[0].stop - 1
            if task in tasks and trim.upto > needed:
                yield f"commit trim: {trim.author} trimmed {trim.partition} to {trim.upto}, {unit} needs {needed}"
            if task in tasks:
                back = self.globals.needed(unit)
                at = 0 if back is None or back.cuts is None else back.cuts.tasks[task].ranges[0].stop - 1
                yield from trimmed_too_far(self.globals, unit, trim, at)

    def _checkpoint_trim(self, trim: Trimmed) -> Iterator[str]:
        """Invariant 6: what is left restores the same image as all there ever was."""
        left = [(offset, record) for offset, record in self._records[trim.partition] if offset >= trim.upto]
        if not any(isinstance(record, Anchor) and record.upto == trim.upto for _, record in left):
            yield f"trim: {trim.author} trimmed {trim.partition} to {trim.upto}, which no anchor names"
        try:
            folded, runs = restore(iter(left))
        except StateCorrupted as error:
            yield f"restore: {trim.partition} trimmed to {trim.upto} restores nothing: {error}"
            return
        image = MemoryImage()
        for run in runs:
            for part in run.parts:
                image.apply(checkpoints.unpack(part.entries))
        if _entries(image) != _entries(self._images[trim.partition]):
            yield f"restore: {trim.partition} trimmed to {trim.upto} restores another image"
        if folded.last_id != self._generation.folds[trim.partition].last_id:
            yield f"restore: {trim.partition} trimmed to {trim.upto} ends at another marker"
        yield from self.globals.restored(self._generation.unit_of(trim.partition), trim.partition, left)


@dataclass(slots=True)
class _Arrivals:
    """The frames of one writer on one partition: up to which batch all are there."""

    received: int = 0
    parts: int = 0
    ended: bool = False

    def add(self, header: Header) -> None:
        if header.batch == self.received + 1 and header.part == self.parts and not self.ended:
            self.parts += 1
            if self.parts == header.parts:
                self.received, self.parts = header.batch, 0
                self.ended = bool(header.flags & FLAG_END)

    @property
    def upto(self) -> float:
        return float("inf") if self.ended else self.received


def image_states(cluster: Cluster, generation: Generation, states: Mapping[tuple[str, int], State]) -> Iterator[str]:
    """Checks that every copy's image is the state as of a valid marker."""
    for (key, batch), state in cluster.images.seen.items():
        _, named_generation, unit = split_unit_key(key)
        if named_generation == generation.plan.generation and state != states.get((unit, batch), {}):
            yield f"image: that of {unit} as of batch {batch} is not what the checkpoint log gives"


def _needed(marker: Marker | None, partition: Partition) -> int:
    positions = () if marker is None else marker.positions
    return next((p.offset for p in positions if (p.topic, p.partition) == (partition.topic, partition.index)), 0)


def _entries(image: MemoryImage) -> object:
    return image.slice(b"", 2**62)
