"""Deliberate bugs of cuts: what a source reads, and which records a batch has."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from msgspec import structs

from holdfast.schemas.cuts import CutsSnapshot
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.cuts import CutLog
from holdfast.services.decisions.shares import Share
from holdfast.services.kernel.dataflow.cut_records import Records
from holdfast.services.log.memory import MemoryReader
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.core.counting_units import CountingUnits
from holdfast.services.worker.host.topic_watch import TopicWatch
from holdfast.services.worker.sources.cutter import Cutter
from holdfast.services.worker.sources.replaced import TopicGuard
from holdfast.services.worker.sources.silences import Silences
from holdfast.services.worker.sources.user_topic import SourceFeed
from holdfast.services.worker.sources.waiting_records import Waiting
from tests.simulation.mutants.bug import method


def records_below_the_range() -> AbstractContextManager[object]:
    """Does not drop records below the position; a batch is all that is held below its end."""

    def offer(self: Waiting, chunk: Chunk) -> None:
        self.fetched = chunk.messages[0].offset() if chunk.messages else self.fetched
        true_offer(self, chunk)

    def records(self: Waiting, start: int, stop: int) -> Records:
        some = slice(0, bisect_left(sorted(self.offsets), stop))
        return Records(self.offsets[some], self.values[some], self.stamps[some], self._keys_of(some))

    true_offer = Waiting.offer
    return mock.patch.multiple(Waiting, offer=offer, records=records)


@method(CutLog, "_cut")
def last_cut_wins(true: Any, self: CutLog, cut: Any) -> bool:
    """A second proposal for a batch replaces the first."""
    before = self._tasks.get(cut.task)
    if before is not None and cut.batch == before.batch and not before.final and not self.paused:
        self._last.accept(cut.task, cut.id)
        self._tasks[cut.task] = structs.replace(before, last=cut.id, ranges=cut.ranges, watermark=cut.watermark)
        return True
    return bool(true(self, cut))


@method(CutLog, "_control")
def pause_ignored(true: Any, self: CutLog, control: Any) -> bool:
    taken = bool(true(self, control))
    self.paused = False
    return taken


@method(Cutter, "_append")
def cut_not_read_back(true: Any, self: Cutter, name: str, feed: SourceFeed, now_ms: float) -> None:
    """A proposal counts at once."""
    sent: list[tuple[bytes, Any]] = []
    partition = self._partition
    with mock.patch.object(self._around.appender, "append", lambda _, value, done: sent.append((value, done))):
        true(self, name, feed, now_ms)
    for value, done in sent:
        self._around.appender.append(partition, value, done=done)
        self.read(self.log.upto, value, feed.batch)


@method(TopicGuard, "look")
def topic_ids_not_compared(true: Any, self: TopicGuard, log: CutLog, watch: TopicWatch, now_ms: float) -> Any:
    """A topic that was created again is read on where the old one was left."""
    return iter(())


@contextmanager
def read_on_by_offset_alone() -> Iterator[None]:
    """Besides, a reader whose position a topic does not have starts at its first record, as a client can be set to."""

    def read(self: MemoryReader, partition: Partition, stored: Any, count: int) -> Any:
        if self._positions[partition] > stored.end:
            self._positions[partition] = 0
        return true(self, partition, stored, count)

    true = MemoryReader._read
    with topic_ids_not_compared(), mock.patch.object(MemoryReader, "_read", read):
        yield


@method(Share, "_nth")
def taken_by_two_owners(true: Any, self: Share, owned: int) -> int:
    """A new partition joins every source task."""
    return int(replace(self, tasks=1).index + owned)


def joined_in_the_middle() -> AbstractContextManager[object]:
    """A new partition joins where the task met it, and not at its first record."""

    def late(self: Share, owned: int, partitions: int) -> Any:
        return tuple(structs.replace(r, start=1, stop=1) for r in true_joining(self, owned, partitions))

    def adds(self: Share, owned: int, added: Any) -> bool:
        return bool(true_adds(self, owned, [structs.replace(r, start=0, stop=0) for r in added]))

    true_joining, true_adds = Share.joining, Share.adds
    return mock.patch.multiple(Share, joining=late, adds=adds)


@method(Share, "joining")
def new_partitions_ignored(true: Any, self: Share, owned: int, partitions: int) -> Any:
    """Reads only the first partitions of a topic that has grown."""
    return ()


@method(SourceFeed, "_decode")
def lost_records_brought(true: Any, self: SourceFeed, ranges: Any, unknown: Any = None) -> Any:
    """A copy that can read what a cut names as lost brings it."""
    read = true(self, [structs.replace(r, lost=0) for r in ranges], unknown)
    return replace(
        read, ranges=tuple(structs.replace(r, lost=asked.lost) for r, asked in zip(read.ranges, ranges, strict=True))
    )


@method(Waiting, "lose")
def gone_records_passed_over(true: Any, self: Waiting, start: int) -> None:
    """Records that are gone are not cut as lost, but lie within an ordinary cut."""
    self.fetched = max(self.fetched, start)


@method(Silences, "ask")
def unconfirmed_end_is_idle(true: Any, self: Silences, feed: Any, now_ms: float) -> None:
    """A partition is idle once the reader has met its end: nobody asks Kafka whether it ends there still."""
    if feed.idling is None:
        return
    standings = feed.standings()
    question = feed.idling.question(standings, *self._levels(feed.task.name, feed.idling), now_ms)
    if question is not None:
        met = {partition: standing.position for partition, standing in standings.items()}
        feed.idling.answered(question, met, standings)


@method(Cutter, "_held")
def tables_not_waited_for(true: Any, self: Cutter, name: str) -> bool:
    """A stream brings its records while the table that it joins is still being loaded."""
    return False


@method(Cutter, "as_of")
def marker_with_newest_cuts(true: Any, self: Cutter, batch: int) -> CutsSnapshot | None:
    """A marker holds the cut log as it is, and not as of its batch."""
    true(self, batch)
    return self.log.snapshot() if self.feeds else None


@method(CountingUnits, "slowest")
def every_unit_counts(
    true: Any, self: CountingUnits, own: str, processed: Any, newest: int, now_ms: float, runs: Any
) -> int:
    """Sources wait for the slowest unit, also for one that has no place."""
    return min(processed.values(), default=0)
