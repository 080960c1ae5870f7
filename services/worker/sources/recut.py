"""A task that brings Spark's output into the job's batches: valid commits wait until cuts include them.

Source: PROTOCOL 12. A cut of this task is a range of the commit log that ends just behind a valid commit. Batch b
consists of the rows of the valid commits in it; its watermark is that of the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from holdfast.schemas.cuts import NO_WATERMARK, Cut, Range, TaskCuts
from holdfast.services.decisions.commits import Refuse
from holdfast.services.decisions.recut import Recut
from holdfast.services.kernel.dataflow.cut_records import Brought, CommitCuts
from holdfast.services.kernel.dataflow.micro_batches import MicroBatch
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.sources.feed import Feed


class RecutFeed(Feed):
    """Feeds one task from the commits of a Spark driver.

    Args:
        task, state, batch: as in Feed; the source share is that of the commit log.
        first: offsets at which Spark begins to read, by topic and partition.
        refuse: called with a record that cannot be decoded or does not fit.
        of_users: as in CommitCuts.
    """

    def __init__(
        self,
        task: TaskLayout,
        state: TaskCuts,
        batch: int,
        first: Mapping[str, Mapping[int, int]],
        refuse: Refuse,
        of_users: Collection[str] = (),
    ) -> None:
        super().__init__(task, state, batch)
        (r,) = state.ranges
        self._reading = CommitCuts(task, of_users)
        self._recut = Recut(r.stop, first, self._reading.check, refuse)
        self._waiting: list[MicroBatch] = []
        self._position = self._cut = r.stop
        self._fetched = self._recut.position
        self._newest_us = r.newest_us

    @property
    def records(self) -> int:
        """The number of rows without a cut. A commit without rows counts as one, because its watermark may close
        windows."""
        return sum(max(1, one.rows) for one in self._uncut())

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self._waiting)

    def positions(self) -> dict[int, int]:
        return {0: self._fetched}

    def offer(self, chunk: Chunk, now_ms: float) -> None:
        for message in chunk.messages:
            if message.offset() < self._fetched:
                continue
            self._fetched = message.offset() + 1
            found = self._recut.read(message.offset(), message.value() or b"")
            if found is not None and found.offset >= self._position:
                self._waiting.append(found)

    def backlog(self, partition: int) -> int:
        return sum(one.rows for one in self._waiting)

    def _uncut(self) -> list[MicroBatch]:
        return [one for one in self._waiting if one.offset >= self._cut]

    # -- cuts ---------------------------------------------------------------------------------------------------------

    def weight(self, cut: Cut) -> int:
        (r,) = cut.ranges
        return sum(one.bytes for one in self._waiting if r.start <= one.offset < r.stop)

    def at_end(self, ends: Mapping[int, int]) -> bool:
        """True if Spark's final commit waits. A drain does not know that end when it begins."""
        return any(one.commit.final for one in self._uncut())

    def propose(
        self, batch: int, max_records: int, max_bytes: int, ends: Mapping[int, int] | None
    ) -> tuple[tuple[Range, ...], bool]:
        """Ranges of whole commits, at least one if any waits. The final commit is cut only when the drain is known
        here."""
        taken: list[MicroBatch] = []
        rows = size = 0
        for one in self._uncut():
            if (taken and (rows + one.rows > max_records or size + one.bytes > max_bytes)) or (
                one.commit.final and ends is None
            ):
                break
            taken.append(one)
            rows, size = rows + one.rows, size + one.bytes
        if not taken:
            return (Range(0, self._cut, self._cut, self._newest_us),), False
        last = taken[-1]
        return (Range(0, self._cut, last.offset + 1, last.commit.watermark),), last.commit.final

    def watermark(self, ranges: Sequence[Range], now_ms: float) -> int:
        newest = ranges[0].newest_us
        return NO_WATERMARK if newest is None else newest

    # -- of a valid cut -----------------------------------------------------------------------------------------------

    def _see(self, cut: Cut, now_ms: float) -> None:
        (r,) = cut.ranges
        self._cut = r.stop
        self._newest_us = r.newest_us

    def _here(self, cut: Cut) -> bool:
        (r,) = cut.ranges
        return r.stop == r.start or self._fetched >= r.stop

    def _bring(self, cut: Cut) -> Brought:
        return self._reading.bring(cut, self._waiting)

    def _drop(self, cut: Cut) -> None:
        stop = cut.ranges[0].stop
        self._waiting = [one for one in self._waiting if one.offset >= stop]
        self._position = max(self._position, stop)
