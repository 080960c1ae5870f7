"""The feed of one source task of a user's topic: waiting records, the cuts that name them, and the rows they become.

Source: PROTOCOL 3. Batch b is exactly the records in [start, stop): records below the position are dropped, from any
fetch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import structs

from holdfast.schemas.cuts import LOADED_WATERMARK, NO_WATERMARK, Cut, Range, TaskCuts
from holdfast.schemas.leaps import Leap
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.codecs.registered import KINDS, NO_SCHEMAS
from holdfast.services.kernel.dataflow.cut_records import NO_RECORDS, Brought, Read, TopicCuts
from holdfast.services.kernel.dataflow.leaps import Leaps
from holdfast.services.kernel.dataflow.source_records import wanted_of
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.core.idle_partitions import IdlePartitions, Standing
from holdfast.services.worker.sources.feed import Feed
from holdfast.services.worker.sources.fetched import Fetched
from holdfast.services.worker.sources.waiting_records import Waiting, size

_GONE = (
    "batch {batch} was cut before retention deleted offsets {first} to {last} of {partition}, and no checkpoint holds "
    "it: what it brought can not be computed again. Submit the job again, with a longer retention.ms of the topic"
)


LEAST_LEAP_US = 1_000_000
"""Least lead of a record's event time, in microseconds, for the record to stand out."""


class SourceFeed(Feed):
    """Feeds one source task.

    Args:
        task, state, batch: as in Feed.
        schemas: schemas of the records, if the records name theirs.

    Attributes:
        resumes: called when records that were held back must be read again.
    """

    def __init__(
        self,
        task: TaskLayout,
        state: TaskCuts,
        batch: int,
        now_ms: float = 0.0,
        schemas: Fetched | None = None,
    ) -> None:
        super().__init__(task, state, batch)
        source = task.operator.source
        self._lateness_us = int(source.allowed_lateness_s * 1_000_000)
        self._schemas = schemas
        self._kept_out = set[int]()
        self._let_in = set[int]()
        self.resumes: Callable[[], None] = lambda: None
        known = NO_SCHEMAS if schemas is None else schemas.known
        self._reading = TopicCuts(task, known)
        self._table = bool(source.table)
        self._wanted = wanted_of(source)
        self._names_schemas = source.format in KINDS
        self._keys_name_schemas = source.key_format in KINDS
        self._waiting = {r.partition: self._from(r.stop) for r in state.ranges}
        self._newest = {r.partition: r.newest_us for r in state.ranges}
        after_ms = (_ms(source.idle_after_s), _ms(source.close_after_idle_s))
        self.idling = None if self._table else IdlePartitions(*after_ms, now_ms)
        self._prepared: dict[int, Read] = {}
        assert task.source is not None
        self._leaping = None if self._table else Leaps(task.source.topic, max(self._lateness_us, LEAST_LEAP_US))
        self._reads = True
        self._gives_up = False
        self._sealed = 0
        self.continues = source.on_data_loss == "continue"

    @property
    def records(self) -> int:
        return sum(waiting.uncut + len(waiting.gone) for waiting in self._waiting.values())

    @property
    def oldest_ms(self) -> int | None:
        return min((ms for waiting in self._waiting.values() if (ms := waiting.oldest_ms) is not None), default=None)

    @property
    def leap(self) -> Leap | None:
        return None if self._leaping is None else self._leaping.leap

    def skip(self, batch: int) -> None:
        super().skip(batch)
        if self._leaping is not None:
            self._leaping.forget()

    @property
    def bytes(self) -> int:
        return sum(w.bytes for w in self._waiting.values())

    def positions(self) -> dict[int, int]:
        """The offsets to read from; empty while the topic is not the one that the job reads."""
        if not self._reads:
            return {}
        return {partition: w.fetched for partition, w in self._waiting.items()}

    def done(self) -> dict[int, int]:
        """The offset behind the last record of each partition in the last batch, from any thread."""
        return {partition: waiting.position for partition, waiting in list(self._waiting.items())}

    def offer(self, chunk: Chunk, now_ms: float) -> None:
        if not self._reads or chunk.partition.index not in self._waiting:
            return
        if self.idling is not None:
            self.idling.heard(chunk.partition.index, now_ms)
        if self._schemas is None or self._lets_in(self._schemas, chunk):
            self._waiting[chunk.partition.index].offer(chunk)

    def _lets_in(self, schemas: Fetched, chunk: Chunk) -> bool:
        """True if every schema of the records is known; otherwise the records are read again once the schemas are
        known."""
        partition = chunk.partition.index
        if partition in self._kept_out:
            return False
        named = [message.value() for message in chunk.messages] if self._names_schemas else []
        if self._keys_name_schemas:
            named += [message.key() for message in chunk.messages]
        if lacking := schemas.lacking(named):
            self._kept_out.add(partition)
            schemas.ask(lacking, lambda: self._read_again(partition))
        return not lacking

    def _read_again(self, partition: int) -> None:
        """Reads records again that were held back, since the reader's position is behind them."""
        self._let_in.add(partition)
        self.lives += 1
        self.resumes()

    def rewired(self) -> None:
        self._kept_out -= self._let_in
        self._let_in.clear()

    @property
    def waits(self) -> str:
        return "" if self._schemas is None or not self.keeps_out else self._schemas.waits

    @property
    def keeps_out(self) -> bool:
        return bool(self._kept_out)

    def backlog(self, partition: int) -> int:
        return len(self._waiting[partition].offsets)

    # -- records that are gone ----------------------------------------------------------------------------------------

    def lose(self, partition: int, start: int) -> bool:
        """Notes that the log of a partition begins at `start`. False if that is known already, so that nothing must be
        read again."""
        waiting = self._waiting.get(partition)
        if waiting is None or (start <= waiting.fetched and not waiting.jumped):
            return False
        waiting.lose(start)
        waiting.jumped = False
        self.lives += 1
        return True

    def gone(self, batch: int) -> str:
        cut, source = self._cuts.get(batch), self.task.source
        for r in () if cut is None or batch <= self._sealed else cut.ranges:
            missing = next((one for one in self._waiting[r.partition].gone if one[0] < r.stop and not r.lost), None)
            if missing is not None and source is not None:
                return _GONE.format(
                    batch=batch, partition=Partition(source.topic, r.partition), first=missing[0], last=missing[1] - 1
                )
        return ""

    # -- topics that were replaced ------------------------------------------------------------------------------------

    def stop(self, keep: bool) -> None:
        """Stops reading, because the topic was replaced, and drops records without a cut.

        Args:
            keep: True if the records read are of the old topic, so that batches cut and here can still be processed.
        """
        self._reads = False
        self._gives_up = False
        held = {number for number, cut in self._cuts.items() if keep and self._holds(cut)}
        self._prepared = {
            n: self._prepared.get(n) or self._decode(self._cuts[n].ranges, self._cuts[n].unknown) for n in held
        }
        self._sealed = max(self._cuts, default=self.batch)
        self._empty([(partition, waiting.cut) for partition, waiting in self._waiting.items()])

    def begin(self, state: TaskCuts, reads: bool, now_ms: float) -> None:
        """Continues with the new topic. Batches whose records are not here have lost them.

        Args:
            reads: False if the source ends at its present position.
        """
        self._reads = reads
        self._gives_up = True
        self._newest = {r.partition: r.newest_us for r in state.ranges}
        self._empty([(r.partition, r.stop) for r in state.ranges])
        if self.idling is not None:
            for r in state.ranges:
                self.idling.heard(r.partition, now_ms)

    def _empty(self, positions: Iterable[tuple[int, int]]) -> None:
        self.lives += 1
        self._waiting = {partition: self._from(at) for partition, at in positions}

    def _from(self, position: int) -> Waiting:
        return Waiting(position, position, position, self._table, wanted=self._wanted)

    def _holds(self, cut: Cut) -> bool:
        return all(r.lost > 0 or self._waiting[r.partition].holds(r.stop) for r in cut.ranges)

    # -- cuts ---------------------------------------------------------------------------------------------------------

    def weight(self, cut: Cut) -> int:
        known = [r for r in cut.ranges if r.partition in self._waiting]
        return sum(self._waiting[r.partition].weight(r.start, r.stop) for r in known)

    def at_end(self, ends: Mapping[int, int]) -> bool:
        """True if everything below the drain's end offsets has been fetched."""
        return all(
            partition in self._waiting and self._waiting[partition].holds(end) for partition, end in ends.items()
        )

    def propose(
        self, batch: int, max_records: int, max_bytes: int, ends: Mapping[int, int] | None
    ) -> tuple[tuple[Range, ...], bool]:
        """Ranges of the next cut, decoded and kept until it is read back, and True if they reach the drain's ends. A
        partition without an end joined after the drain began and is no longer read."""
        share = max(1, max_records // max(1, len(self._waiting)))
        ranges = [
            self._range(partition, waiting, share, max_bytes, None if ends is None else ends.get(partition, 0))
            for partition, waiting in sorted(self._waiting.items())
        ]
        read = self._decode(ranges)
        self._prepared[batch] = read
        final = ends is not None and all(r.stop >= ends.get(r.partition, 0) for r in read.ranges)
        return read.ranges, final

    def unknown(self, batch: int) -> tuple[int, ...]:
        prepared = self._prepared.get(batch)
        return () if prepared is None else prepared.decoded.unknown

    def _range(self, partition: int, waiting: Waiting, share: int, max_bytes: int, end: int | None) -> Range:
        """The next range of a partition. Lost records get a range of their own, which brings no records to any copy."""
        if (stop := waiting.lost) > waiting.cut:
            return Range(partition, waiting.cut, stop, lost=stop - waiting.cut)
        if waiting.gone:
            held, end = bisect_left(waiting.offsets, waiting.gone[0][0]), None
        else:
            held = len(waiting.offsets)
        return Range(partition, waiting.cut, self._stop(waiting, held, share, max_bytes, end))

    def _stop(self, waiting: Waiting, held: int, share: int, max_bytes: int, end: int | None) -> int:
        offsets, first = waiting.offsets, bisect_left(waiting.offsets, waiting.cut)
        last = min(held, first + share)
        while last - first > 1 and waiting.bytes > max_bytes and size(waiting.values[first:last]) > max_bytes:
            last = first + (last - first) // 2
        stop = offsets[last - 1] + 1 if last > first else waiting.cut
        if end is None:
            return stop
        behind = offsets[last] if last < len(offsets) else None
        reached = stop >= end or (behind is not None and behind >= end) or (behind is None and waiting.holds(end))
        return max(waiting.cut, end) if reached else stop

    def standings(self) -> dict[int, Standing]:
        return {
            partition: Standing(w.rests, max(w.end, w.fetched), self._level(self._newest[partition]))
            for partition, w in self._waiting.items()
        }

    def idle(self, now_ms: float) -> bool:
        """True if every partition is idle (core/idle_partitions.py). A table is never idle."""
        return self.idling is not None and not self.records and self.idling.idle(self.standings())

    def watermark(self, ranges: Sequence[Range], now_ms: float) -> int:
        """The minimum over the partitions of the newest event time in their cuts, minus the lateness. An idle partition
        gives way. The watermark of a table only shows if the table is loaded."""
        if self.idling is None:
            loaded = all(self._waiting[r.partition].loaded(r.stop) for r in ranges)
            return LOADED_WATERMARK if loaded else NO_WATERMARK
        self.idling.look(self.standings(), now_ms)
        return self.idling.watermark(
            {r.partition: Standing(r.stop == r.start, r.stop, self._level(r.newest_us)) for r in ranges}
        )

    def _level(self, newest_us: int | None) -> int:
        return NO_WATERMARK if newest_us is None else newest_us - self._lateness_us

    # -- of a valid cut -----------------------------------------------------------------------------------------------

    def _see(self, cut: Cut, now_ms: float) -> None:
        for r in cut.ranges:
            if r.partition not in self._waiting:
                self._waiting[r.partition] = self._from(r.start)
            self._waiting[r.partition].cut = r.stop
            if r.lost:
                self._waiting[r.partition].found_lost(r.start, r.stop)
            self._newest[r.partition] = r.newest_us
            if self.idling is not None and r.stop > r.start:
                self.idling.heard(r.partition, now_ms)
            if cut.batch <= self.batch:
                self._waiting[r.partition].drop(r.stop)
        prepared = self._prepared.get(cut.batch)
        if prepared is not None and (prepared.ranges, prepared.decoded.unknown) != (cut.ranges, cut.unknown):
            del self._prepared[cut.batch]

    def _here(self, cut: Cut) -> bool:
        if cut.batch > self._sealed:
            return self._holds(cut)
        return cut.batch in self._prepared or self._gives_up

    def missing(self, batch: int) -> Mapping[Partition, int]:
        cut, source = self._cuts.get(batch), self.task.source
        if cut is None or source is None or batch <= self._sealed:
            return {}
        lacking = (r for r in cut.ranges if not r.lost and not self._waiting[r.partition].holds(r.stop))
        return {Partition(source.topic, r.partition): r.stop for r in lacking}

    def _bring(self, cut: Cut) -> Brought:
        """The input of a batch. If its topic is gone, all of its records count as lost."""
        if cut.batch <= self._sealed and cut.batch not in self._prepared:
            cut = structs.replace(cut, ranges=tuple(structs.replace(r, lost=r.stop - r.start) for r in cut.ranges))
            return self._reading.bring(cut, self._decode(()))
        read = self._prepared.pop(cut.batch, None) or self._decode(cut.ranges, cut.unknown)
        if self._leaping is not None:
            self._reading.leaps(read, self._leaping)
        return self._reading.bring(cut, read)

    def _drop(self, cut: Cut) -> None:
        """Drops the records of the cut, unless they were of a topic that is gone."""
        self._prepared.pop(cut.batch, None)
        if cut.batch > self._sealed:
            for r in cut.ranges:
                self._waiting[r.partition].drop(r.stop)

    def _decode(self, ranges: Sequence[Range], unknown: Sequence[int] | None = None) -> Read:
        records = [NO_RECORDS if r.lost else self._waiting[r.partition].records(r.start, r.stop) for r in ranges]
        return self._reading.read(ranges, records, self._newest, unknown)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
