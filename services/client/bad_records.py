"""Records that hold a job up, found by reading its own topics once; and the decision to pass over one.

Readers refuse by themselves what they cannot read or believe. What is left to a person is a record that is well formed
and yet wrong: a cut of records that do not exist, or one of two frames that contradict each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from holdfast.schemas import checkpoints, cuts, delivered, events, frames, plans, progress
from holdfast.schemas.cuts import Cut
from holdfast.schemas.events import Event
from holdfast.schemas.plans import Plan, Skip
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.decisions.admitted import Skipped
from holdfast.services.decisions.cuts import of_plan
from holdfast.services.kernel.codecs.frames import payload_of
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.plans.layout import commit_logs, data_topics
from holdfast.services.kernel.plurals import with_article
from holdfast.services.log.late.cut_logs import cuts_base
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.log.protocol import Log
from holdfast.services.view.door import Door
from holdfast.services.worker.sinks.position import newest_cut

ANSWER_S = 10.0


class PoisonLine(msgspec.Struct, frozen=True):
    """A line of `holdfast repair JOB --list`.

    holds: true if the record blocks the job until it is skipped; false if every reader skips it anyway.
    skipped: true if a person has skipped it.
    """

    topic: str
    partition: int
    offset: int
    cause: str
    holds: bool
    skipped: bool


@dataclass(slots=True)
class Search:
    """A search for bad records in one job's own topics."""

    log: Log
    plan: Plan
    topics: JobTopics
    skipped: Skipped
    found: list[PoisonLine] = field(default_factory=list)

    def lines(self) -> list[PoisonLine]:
        """The bad records, those that block the job first."""
        self._cuts()
        self._frames()
        units, own = range(len(self.plan.units)), self.topics
        newest = newest_cut(self.log, Partition(own.cuts, 0), self.plan.first_batch)
        for index in units:
            self._each(Partition(own.checkpoints, index), checkpoints.decode)
            self._each(Partition(own.delivered, index), lambda value: _position(value, newest))
        self._each(Partition(own.progress, 0), progress.decode)
        return sorted(self.found, key=lambda line: (not line.holds, line.skipped, line.topic, line.offset))

    def _cuts(self) -> None:
        """Cuts that cannot be read, and valid cuts of records that do not exist."""
        at = Partition(self.topics.cuts, 0)
        log = of_plan(self.plan, base=cuts_base(self.log, self.plan, at))
        topics = {
            f"{source.operator}-{index}": source.topic
            for source in self.plan.sources
            for index in range(len(source.owners))
        }
        ends: dict[Partition, int] = {}
        ahead: set[str] = set()
        for offset, value in self._records(at):
            try:
                record = cuts.decode(value)
            except msgspec.DecodeError as error:
                self._report(at, offset, str(error), holds=False)
                continue
            if offset in self.skipped.get(at, ()):
                self._report(at, offset, with_article(type(record).__name__.lower()), holds=False)
                continue
            if not log.read(offset, record) or not isinstance(record, Cut) or record.task in ahead:
                continue  # later cuts that depend on this one are skipped with it
            stops = {Partition(topics[record.task], r.partition): r.stop for r in record.ranges}
            ends |= self.log.offsets([p for p in stops if p not in ends], "end")
            for partition, stop in stops.items():
                if stop > ends[partition]:
                    ahead.add(record.task)
                    cause = f"cut {record.batch} of {record.task} goes to {stop} of {partition}, beyond its end"
                    self._report(at, offset, cause, holds=True)

    def _frames(self) -> None:
        """Records that are no frames, and both of two frames that contradict each other."""
        logs = commit_logs(self.plan)
        for topic, count in data_topics(self.plan).items():
            if topic in logs or not topic.startswith(f"{self.topics.root}.data."):
                continue
            for at in (Partition(topic, index) for index in range(count)):
                self._frames_of(at)

    def _frames_of(self, at: Partition) -> None:
        firsts: dict[tuple[int, int, int], tuple[int, int]] = {}
        for offset, value in self._records(at):
            try:
                header = frames.unpack(value)
                payload_of(value, header)
            except ValueError as error:
                self._report(at, offset, str(error), holds=False)
                continue
            if offset in self.skipped.get(at, ()):
                self._report(at, offset, "a frame", holds=False)
                continue
            key = header.writer, header.batch, header.part
            first, known = firsts.setdefault(key, (offset, header.payload_hash))
            if known != header.payload_hash:
                named = f"writer {key[0]} batch {key[1]} part {key[2]}"
                for one, other in ((first, offset), (offset, first)):
                    cause = f"{named} has other rows at offset {other}: one of the two is wrong"
                    self._report(at, one, cause, holds=True)

    def _each(self, at: Partition, decode: Callable[[bytes], object]) -> None:
        for offset, value in self._records(at):
            try:
                decode(value)
            except msgspec.DecodeError as error:
                self._report(at, offset, str(error), holds=False)

    def _records(self, at: Partition) -> Iterator[tuple[int, bytes]]:
        return ((message.offset(), message.value() or b"") for message in self.log.scan(at))

    def _report(self, at: Partition, offset: int, cause: str, *, holds: bool) -> None:
        skipped = offset in self.skipped.get(at, ())
        self.found.append(PoisonLine(at.topic, at.index, offset, cause, holds=holds and not skipped, skipped=skipped))


def _position(value: bytes, newest: int) -> None:
    batch = delivered.decode(value).batch
    if batch > newest:
        raise msgspec.ValidationError(f"position {batch} is ahead of every batch: {newest} is cut")


def search(door: Door, plan: Plan) -> list[PoisonLine]:
    """The bad records in the job's own topics."""
    topics = door.topics.job(plan.job, plan.generation)
    return Search(door.log, plan, topics, skipped(door, plan.generation)).lines()


def skipped(door: Door, generation: str) -> Skipped:
    """The records that people have decided to skip so far."""
    return read_admitted(door.log, door.topics).skipped(generation)


def place(text: str, plan: Plan, topics: JobTopics, present: Mapping[str, int]) -> tuple[Partition, int]:
    """TOPIC:OFFSET or TOPIC:PARTITION:OFFSET. Raises CommandFailed unless it is a place in the job's own topics."""
    name, *numbers = text.split(":")
    if not 1 <= len(numbers) <= 2 or not all(number.isdecimal() and number.isascii() for number in numbers):
        raise CommandFailed(f"'{text}' is no place", "TOPIC:OFFSET, or TOPIC:PARTITION:OFFSET", USAGE)
    offset, index = int(numbers[-1]), int(numbers[0]) if len(numbers) == 2 else 0
    topic = name if name.startswith(f"{topics.root}.") else f"{topics.root}.{name}"
    if topic not in present or index >= present[topic]:
        own = sorted(one for one in present if one.startswith(f"{topics.root}."))
        raise CommandFailed(f"job {plan.job} has no {topic}[{index}]", f"its own topics: {', '.join(own)}", USAGE)
    return Partition(topic, index), offset


def skip(door: Door, plan: Plan, at: Partition, offset: int) -> None:
    """Decides that readers skip a record. Raises CommandFailed if there is none."""
    start, end = (door.log.offsets([at], which)[at] for which in ("start", "end"))
    if not start <= offset < end:
        raise CommandFailed(f"{at} holds offsets {start} to {end - 1}, not {offset}", code=USAGE)
    now_ms = int(time.time() * 1000)
    decision = Skip(plan.job, plan.generation, at.topic, at.index, offset=offset, time_ms=now_ms)
    detail = f"{at} offset {offset}: passed over by every reader from now on"
    event = Event(now_ms, "record-skipped", plan.job, detail=detail, topic=at.topic, partition=at.index, offset=offset)
    appender = door.log.appender("repair")
    try:
        appender.append(Partition(door.topics.plans, 0), plans.encode(decision))
        appender.append(Partition(door.topics.events, 0), events.encode(event))
        appender.flush(ANSWER_S)
    finally:
        appender.close()
