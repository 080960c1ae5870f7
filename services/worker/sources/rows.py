"""A task that brings Spark's output in real-time mode into the job's batches.

Source: PROTOCOL 12. A cut has a range of every lane of the commit log's topic, each ending just behind a valid row; and
a range of partition 0, in which the last commit names the ends of the lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import polars as pl

from holdfast.schemas.cuts import Cut, Range, TaskCuts
from holdfast.schemas.plans import SparkPlan
from holdfast.services.decisions.commits import CommitLog
from holdfast.services.kernel.codecs.marked import AT, REACHED, Refuse, RowReader
from holdfast.services.kernel.dataflow import watermark
from holdfast.services.kernel.dataflow.cut_records import Brought, LaneCuts
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.sources.feed import Feed

DECISIONS = 0
"""The partition with the fences and the last commit."""


class _Lane:
    """Records of one partition.

    Attributes:
        rows: valid rows that no batch has used.
        cut: first offset without a cut.
    """

    def __init__(self, output: Mapping[str, str], r: Range, refuse: Refuse) -> None:
        self._reader = RowReader(output, r.stop, refuse)
        self.cut = r.stop
        self.newest_us = r.newest_us
        self._position = r.stop
        self.fetched = self._reader.position
        self.end = -1
        self.heard_ms: float | None = None
        self.rows: pl.DataFrame = self._reader.read([], [])
        self.bytes = 0

    def offer(self, chunk: Chunk, now_ms: float) -> None:
        new = [message for message in chunk.messages if message.offset() >= self.fetched]
        if new:
            values = [message.value() for message in new]
            found = self._reader.read([message.offset() for message in new], values)
            self.rows = pl.concat([self.rows, found.filter(pl.col(AT) >= self._position)])
            self.bytes += sum(map(len, filter(None, values)))
            self.fetched = new[-1].offset() + 1
            self.heard_ms = now_ms
        self.end = max(self.end, -1 if chunk.end is None else chunk.end)

    @property
    def at_end(self) -> bool:
        return self.end >= self.fetched

    def uncut(self) -> pl.DataFrame:
        return self.between(self.cut, self.fetched)

    def between(self, start: int, stop: int) -> pl.DataFrame:
        at = self.rows.get_column(AT)
        first, last = at.search_sorted(start), at.search_sorted(stop)
        return self.rows.slice(first, max(0, last - first))

    def weight(self, start: int, stop: int) -> int:
        return self.bytes * self.between(start, stop).height // max(1, self.rows.height)

    def drop(self, stop: int) -> None:
        before = self.rows.height
        self.rows = self.rows.filter(pl.col(AT) >= stop).rechunk()
        self.bytes = self.bytes * self.rows.height // max(1, before)
        self._position = max(self._position, stop)

    def propose(self, partition: int, limit: int, end: int | None) -> Range:
        waiting = self.between(self.cut, self.fetched if end is None else end).head(limit)
        if not waiting.height:
            return Range(partition, self.cut, self.cut, self.newest_us)
        reached = [one for one in (self.newest_us, waiting.get_column(REACHED).max()) if one is not None]
        return Range(partition, self.cut, int(waiting.item(-1, AT)) + 1, max(map(int, reached), default=None))  # type: ignore[arg-type]


class RowsFeed(Feed):
    """Feeds one task from Spark's output in real-time mode.

    Args:
        task, state, batch: as in Feed; the source share is that of the commit log's topic.
        refuse: called with a record that cannot be decoded or does not fit.
    """

    def __init__(
        self, task: TaskLayout, state: TaskCuts, batch: int, plan: SparkPlan, refuse: Callable[[int, int, str], None]
    ) -> None:
        super().__init__(task, state, batch)
        self._plan = plan
        self._reading = LaneCuts(plan)
        self._lanes = {
            r.partition: _Lane(plan.output, r, partial(refuse, r.partition))
            for r in state.ranges
            if r.partition != DECISIONS
        }
        assert task.source is not None
        self._topic = task.source.topic
        first = {self._topic: dict.fromkeys(self._lanes, 0)}
        self._log = CommitLog(first, refuse=partial(refuse, DECISIONS))

    @property
    def records(self) -> int:
        return sum(lane.uncut().height for lane in self._lanes.values())

    @property
    def bytes(self) -> int:
        return sum(lane.bytes for lane in self._lanes.values())

    def positions(self) -> dict[int, int]:
        """The offsets to read from. The few records of partition 0 are all read."""
        return {DECISIONS: self._log.upto} | {partition: lane.fetched for partition, lane in self._lanes.items()}

    def offer(self, chunk: Chunk, now_ms: float) -> None:
        if chunk.partition.index != DECISIONS:
            self._lanes[chunk.partition.index].offer(chunk, now_ms)
            return
        for message in chunk.messages:
            record = self._log.decode(message.offset(), message.value() or b"")
            if record is not None:
                self._log.read(message.offset(), record)

    def backlog(self, partition: int) -> int:
        return 0 if partition == DECISIONS else self._lanes[partition].rows.height

    def _ends(self) -> Mapping[int, int] | None:
        """The ends of the lanes; None before the last commit."""
        stop = self._log.stop[self._topic] if self._log.ended else None
        return None if stop is None else {lane: stop[lane] for lane in self._lanes}

    # -- cuts ---------------------------------------------------------------------------------------------------------

    def weight(self, cut: Cut) -> int:
        lanes = [(self._lanes[r.partition], r) for r in cut.ranges if r.partition != DECISIONS]
        return sum(lane.weight(r.start, r.stop) for lane, r in lanes)

    def at_end(self, ends: Mapping[int, int]) -> bool:
        """True if all rows up to the last commit's ends are here. A drain does not know these ends when it begins."""
        found = self._ends()
        return found is not None and all(self._lanes[lane].fetched >= stop for lane, stop in found.items())

    def propose(
        self, batch: int, max_records: int, max_bytes: int, ends: Mapping[int, int] | None
    ) -> tuple[tuple[Range, ...], bool]:
        """Ranges of the next cut. The final cut is made only when the drain is known here."""
        stops = self._ends()
        share = max(1, max_records // max(1, len(self._lanes)))
        if self.bytes > max_bytes:
            share = max(1, min(share, self.records * max_bytes // self.bytes // len(self._lanes)))
        ranges = [
            lane.propose(partition, share, None if stops is None else stops.get(partition))
            for partition, lane in sorted(self._lanes.items())
        ]
        final = (
            ends is not None
            and stops is not None
            and self.at_end({})
            and all(not self._lanes[r.partition].between(r.stop, stops[r.partition]).height for r in ranges)
        )
        return (Range(DECISIONS, 0, 0), *ranges), final

    def watermark(self, ranges: Sequence[Range], now_ms: float) -> int:
        """The lowest watermark of the lanes. A lane that was silent for idle_after_s does not count."""
        heard = [
            r.newest_us
            for r in ranges
            if r.partition != DECISIONS and (r.stop > r.start or not self._silent(self._lanes[r.partition], now_ms))
        ]
        return watermark.of_partitions(heard, int(self._plan.lateness_s * 1_000_000))

    def _silent(self, lane: _Lane, now_ms: float) -> bool:
        if lane.heard_ms is None or not lane.at_end:
            lane.heard_ms = now_ms
        idle_after_s = self._plan.idle_after_s
        return idle_after_s is not None and now_ms - lane.heard_ms >= idle_after_s * 1000

    # -- of a valid cut -----------------------------------------------------------------------------------------------

    def _see(self, cut: Cut, now_ms: float) -> None:
        for r in cut.ranges:
            if r.partition != DECISIONS:
                self._lanes[r.partition].cut, self._lanes[r.partition].newest_us = r.stop, r.newest_us

    def _here(self, cut: Cut) -> bool:
        return all(r.stop == r.start or self._lanes[r.partition].fetched >= r.stop for r in cut.ranges)

    def _bring(self, cut: Cut) -> Brought:
        return self._reading.bring(cut, lambda r: self._lanes[r.partition].between(r.start, r.stop), self._lanes)

    def _drop(self, cut: Cut) -> None:
        for r in cut.ranges:
            if r.partition != DECISIONS:
                self._lanes[r.partition].drop(r.stop)
