"""The inputs of a copy: records of users that its source tasks cut, and frames of other units.

Source: PROTOCOL 3, 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial

from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.dataflow import walk
from holdfast.services.kernel.dataflow.inputs import Inputs
from holdfast.services.kernel.errors import StateCorrupted, Unreachable
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.checkpoint.restore import Rebuilt
from holdfast.services.worker.sources.cutter import Cutter
from holdfast.services.worker.sources.feed import Feed
from holdfast.services.worker.sources.upstream import Upstream
from holdfast.services.worker.sources.user_topic import SourceFeed
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit

MAX_INPUT_BYTES, MAX_INPUT_BATCHES = 64 * 1024 * 1024, 2_048
SUSPENDED_INPUT_BYTES = 1024 * 1024
_NOTHING: Set[Partition] = frozenset()


class Intake:
    """The inputs of one copy, from a restored image on.

    Args:
        gaps: offset up to which frames are known to be lost, by partition name.
        leads: returns True if the copy leads.
    """

    def __init__(
        self,
        unit: HostedUnit,
        rebuilt: Rebuilt,
        gaps: Mapping[str, int],
        leads: Callable[[], bool],
    ) -> None:
        self._job, self._around = job, around = unit.job, unit.around
        layout, refuse = unit.layout, partial(_refuse, unit)
        self._raises = layout.unit.name in job.raising_units | job.asking_units
        strict = job.plan.settings.on_divergence != "continue"
        marker = rebuilt.marker
        self.inputs = Inputs(
            layout, job.number, marker, refuse, gaps=gaps, strict=strict, begins=rebuilt.begins, void=job.void
        )
        self._seen = {} if marker is None else dict(marker.seen)
        self.cutter = Cutter(job, layout, rebuilt, around)
        self.feeds = self.cutter.feeds
        self._fed = _by_partition(self.feeds.values())
        self._feeding = _lives(self._fed)
        self._stale: set[Partition] = set()
        self._doubted: dict[Partition, tuple[str, int]] = {}
        self._beginnings: dict[Partition, tuple[str, dict[Partition, int] | Exception | None]] = {}
        self._answers = 0
        self._held: set[Partition] = set()
        self._upstream = Upstream(job.plan.job, layout.unit.name, around, leads)

    # -- where it reads -----------------------------------------------------------------------------------------------

    def positions(self) -> dict[Partition, int]:
        """The offsets of frames and of users' records, as of the marker.

        Two sources of one topic may have different positions: their partition is read from the lower one, and each
        source drops records that it has.
        """
        positions = self.inputs.offsets()
        for partition, feeds in self._fed.items():
            positions[partition] = min(feed.positions()[partition.index] for feed in feeds)
        return positions

    def rewired(self) -> tuple[Set[Partition], dict[Partition, int]]:
        """Changes since the last call: the users' partitions that must no longer be read, and partitions to read from
        other offsets, including those of other units to be read again from an earlier one."""
        again = self.inputs.rewind()
        if not self.cutter.rewired:
            return _NOTHING, again
        self.cutter.rewired = False
        self._stale.clear()
        for feed in self.feeds.values():
            feed.rewired()
        positions, before, self._feeding = self.positions(), self._feeding, _lives(self._fed)
        changed = {partition for partition, lives in self._feeding.items() if before.get(partition) != lives}
        left = before.keys() - (self._feeding.keys() - changed)
        self._held -= left
        for partition in left:
            self._doubted.pop(partition, None)
        return left, {partition: positions[partition] for partition in changed} | again

    # -- topics that may be others ------------------------------------------------------------------------------------

    @property
    def doubtful(self) -> bool:
        """True while a topic may have been replaced, or the beginning of a partition is unknown."""
        return bool(self._doubted or self._beginnings)

    def position_lost(self, partition: Partition, cause: str) -> bool:
        """Handles a lost position of a user's topic. True if the copy must first check that the topic is the same."""
        if partition not in self._fed or self.cutter.is_read(partition.topic, ""):
            return False
        self._doubted[partition] = (cause, self._around.topics.asked + 1)
        self._around.topics.of(partition.topic, self._around.clock_ms())
        self._around.topics.ask_soon()
        return True

    def settle_doubts(self, now_ms: float) -> None:
        """Handles topics that are found to be the same: their records are gone. Raises StateCorrupted if a topic has
        lost its end."""
        for partition, (cause, offsets) in list(self._beginnings.items()):
            if offsets is not None:
                del self._beginnings[partition]
                self._lose(partition, cause, offsets)
        for partition, (cause, request) in list(self._doubted.items()):
            topic = self._around.topics.of(partition.topic, now_ms)
            known = self._around.topics.answered >= request and self.cutter.caught_up
            if partition not in self._fed:
                del self._doubted[partition]
            elif known and topic is not None and self.cutter.is_read(partition.topic, topic.id):
                del self._doubted[partition]
                self._ask_beginning(partition, cause)

    # -- records that are gone ----------------------------------------------------------------------------------------

    def _ask_beginning(self, partition: Partition, cause: str) -> None:
        """Requests the first offset of the partition, beside the loop."""

        def answered(offsets: dict[Partition, int] | Exception) -> None:
            self._answers += 1
            self._beginnings[partition] = (cause, offsets)

        self._beginnings[partition] = (cause, None)
        self._around.asks.run(lambda: self._around.log.offsets([partition], "start"), answered)

    def _lose(self, partition: Partition, cause: str, offsets: dict[Partition, int] | Exception) -> None:
        """Continues at the first offset of the partition; the leader cuts the records before it as lost, or ends the
        job.

        Raises StateCorrupted if the partition does not begin behind the records that were read.
        """
        if isinstance(offsets, Exception):
            self._ask_beginning(partition, cause)
            return
        feeds = [feed for feed in self._fed.get(partition, ()) if isinstance(feed, SourceFeed)]
        if feeds and not any([feed.lose(partition.index, offsets[partition]) for feed in feeds]):
            raise StateCorrupted(cause)
        self.cutter.rewired = True

    # -- what comes ---------------------------------------------------------------------------------------------------

    def handler(self, partition: Partition) -> Callable[[Chunk, int], bool]:
        """The handler of a partition, of frames, cuts or records. Its second argument is the last batch done; it
        returns True if the next turn may have more work."""
        if partition in self.inputs:
            return self._add_frames
        return self._add_cuts if self.cutter.reads(partition) else self._add_records

    def _add_frames(self, chunk: Chunk, batch: int) -> bool:
        # Only the frame of the last writer completes a batch.
        frames = ((message.offset(), message.value() or b"") for message in chunk.messages)
        return self.inputs.offer(chunk.partition, frames, batch + 1)

    def _add_cuts(self, chunk: Chunk, batch: int) -> bool:
        for message in chunk.messages:
            self.cutter.read(message.offset(), message.value() or b"", batch)
        if self.cutter.rewired:
            self._fed = _by_partition(self.feeds.values())
            now = _lives(self._fed)
            self._stale = {one for one, lives in self._feeding.items() if now.get(one) != lives}
        return True

    def _add_records(self, chunk: Chunk, _: int) -> bool:
        if chunk.partition in self._stale:
            # Messages of a replaced topic, or from a position that was given up, do not count.
            return True
        feeds = self._fed.get(chunk.partition, ())
        if any(isinstance(feed, SourceFeed) for feed in feeds):
            self._upstream.look(chunk)
        for feed in feeds:
            feed.offer(chunk, self._around.clock_ms())
        return True

    def ready(self, batch: int) -> bool:
        """True if all input of the batch is here."""
        if not self.cutter.caught_up:
            return False
        return walk.ready(batch, self.feeds, self.inputs)

    def lacking(self, batch: int, leads: bool) -> dict[Partition, int]:
        """End offsets of the batch's cut whose records are not here, by partition.

        Raises an error if records are gone for good: Unreachable at the leader, which alone could have them;
        StateCorrupted elsewhere, because another copy may find a newer checkpoint.
        """
        for feed in self.feeds.values():
            if cause := feed.gone(batch):
                raise Unreachable(cause) if leads else StateCorrupted(cause)
        found = (feed.missing(batch).items() for feed in self.feeds.values())
        return {partition: stop for items in found for partition, stop in items}

    @property
    def answers(self) -> tuple[int, bool]:
        """The number of Kafka's answers about first offsets; and True if a feed must be read from another offset."""
        return self._answers, self.cutter.rewired

    @property
    def keeps_out(self) -> bool:
        """True if a feed holds records back; see Feed.keeps_out."""
        return any(feed.keeps_out for feed in self.feeds.values())

    @property
    def uncut(self) -> bool:
        """True if records without a cut are here."""
        return any(feed.records for feed in self.feeds.values())

    @property
    def ending(self) -> bool:
        """True if the end of an input is here or done."""
        return self.inputs.ending or any(feed.ending for feed in self.feeds.values())

    def skip(self, marker: Marker) -> None:
        """Continues behind a batch that another copy has done."""
        self.inputs.skip(marker)
        self.cutter.skip(marker.b)
        self._see(marker.seen)

    def seen(self) -> dict[str, int]:
        """The highest epoch of received frames, by upstream unit; see schemas/checkpoints.py."""
        for partition, writers in self.inputs.seen().items() if self._job.retains_at_sources else ():
            units = self._job.senders.get(partition, {})
            for number, epoch in writers.items():
                self._see({units[number]: epoch} if number in units else {})
        return dict(self._seen)

    def _see(self, epochs: Mapping[str, int]) -> None:
        self._seen |= {unit: epoch for unit, epoch in epochs.items() if epoch > self._seen.get(unit, 0)}

    # -- flow ---------------------------------------------------------------------------------------------------------

    def hold(self, batch: int, suspended: bool) -> None:
        """Stops fetching partitions with a large backlog, except partitions that this unit waits for.

        A suspended copy holds nothing, because another unit may read the same partition here and its own leader may
        wait for that unit.

        Args:
            batch: the next batch.
        """
        if suspended:
            self.let_go()
            return
        limit = 3 * self._job.rhythm.max_records
        for partition, feeds in self._fed.items():
            for feed in feeds:
                backlog = feed.backlog(partition.index)
                self._hold_one(partition, backlog > limit, backlog < limit // 2)
        for partition, kept in self.inputs.kept_bytes():
            ahead = self.inputs.ahead(partition)
            much = kept > MAX_INPUT_BYTES or ahead > MAX_INPUT_BATCHES
            if much or partition in self._held:
                waited_for = self.inputs.waits_for(partition, batch)
                few = kept < MAX_INPUT_BYTES // 2 and ahead < MAX_INPUT_BATCHES // 2
                self._hold_one(partition, much and not waited_for, few or waited_for)

    def overfed(self) -> set[Partition]:
        """Inputs that are too busy for a suspended copy.

        The next checkpoint would drop nearly all of their records. Measured: 1.7 us for each record of a source.
        """
        most = self._job.rhythm.max_records
        busy = {one for one, feeds in self._fed.items() if any(feed.backlog(one.index) > most for feed in feeds)}
        return busy | {
            one
            for one, kept in self.inputs.kept_bytes()
            if kept > SUSPENDED_INPUT_BYTES or self.inputs.ahead(one) > MAX_INPUT_BATCHES
        }

    @property
    def urgent(self) -> bool:
        """True if a copy that processes nothing needs a turn: code may have raised, or its inputs must change."""
        return self._raises or self.cutter.rewired or self.doubtful or bool(self.overfed())

    def _hold_one(self, partition: Partition, full: bool, drained: bool) -> None:
        if full and partition not in self._held:
            self._held.add(partition)
            self._around.data.hold(self, partition, True)
        elif drained and partition in self._held:
            self._held.discard(partition)
            self._around.data.hold(self, partition, False)

    def let_go(self) -> None:
        """Releases its held inputs, because other subscribers may wait for them."""
        for partition in self._held:
            self._around.data.hold(self, partition, False)
        self._held.clear()


def _refuse(unit: HostedUnit, partition: Partition, offset: int, cause: object) -> None:
    """Refuses a record that is not a frame."""
    unit.around.refusals.refuse(partition, offset, cause, unit.job.plan.job)


def _by_partition(feeds: Iterable[Feed]) -> dict[Partition, list[Feed]]:
    """The feeds of each partition of the users' topics. Two sources of a unit may read the same topic."""
    fed: dict[Partition, list[Feed]] = {}
    for feed in feeds:
        assert feed.task.source is not None
        for index in feed.positions():
            fed.setdefault(Partition(feed.task.source.topic, index), []).append(feed)
    return fed


def _lives(fed: Mapping[Partition, list[Feed]]) -> dict[Partition, tuple[int, ...]]:
    """The `lives` of each feed of a partition. A feed whose number has changed must be read from its present
    position.
    """
    return {partition: tuple(feed.lives for feed in feeds) for partition, feeds in fed.items()}
