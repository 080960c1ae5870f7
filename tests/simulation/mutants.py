"""Deliberate bugs of the protocol, each a switch: the simulation must catch every one of them.

A mutant replaces one method while a cluster runs; the checkers afterwards work with the true one. What stands in
PROTOCOL as needed has a mutant here that leaves it out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple
from unittest import mock
from zlib import crc32

import msgspec
from msgspec import structs

from schemas import delivered
from schemas.assignments import Assignment, Change, Goal, GoalStanding, Snapshot, Standing
from schemas.checkpoints import Anchor, Entry, Marker, unpack
from schemas.cuts import CutsSnapshot
from schemas.frames import HEADER_BYTES
from schemas.frames import unpack as unpack_frame
from schemas.heartbeats import At, Exit
from schemas.plans import Retirement
from schemas.retired import Retired
from schemas.topics import Partition
from services.controller import ends
from services.controller.core.goals import Goals
from services.controller.core.life import Phase
from services.hosting.copies import Copies
from services.kernel.dataflow.cut_records import Records
from services.kernel.dataflow.merging import InputPartition
from services.kernel.errors import Indefinite, PositionGone, TopicGone
from services.kernel.liveness.detector import Detector
from services.kernel.logs.admitted import Admitted
from services.kernel.logs.assigned import Assigned
from services.kernel.logs.checkpoint_log import CheckpointLog, Run
from services.kernel.logs.cuts import CutLog, Share
from services.kernel.logs.jobs import Jobs, Submissions
from services.kernel.logs.snapshots import Trims
from services.kernel.logs.standings import Standings
from services.kernel.state.keyed import StateTable
from services.log import jobs as log_of_jobs
from services.log import late
from services.log.memory import MemoryLog, MemoryReader
from services.log.protocol import Chunk
from services.recovery.core.job.wants import Wants
from services.recovery.core.placement.balancing import _Load
from services.recovery.core.unit import blame, moving
from services.recovery.core.unit.crashes import Crashes
from services.recovery.core.unit.moves import MOVES, Move
from services.recovery.core.unit.situation import Situation
from services.recovery.snapshotting import Snapshotting
from services.worker.checkpoint import restoring
from services.worker.checkpoint.applier import Applier
from services.worker.checkpoint.parts import Parts
from services.worker.core import checkpointing, lifecycle
from services.worker.core.counting import Counting
from services.worker.host.topic_watch import TopicWatch
from services.worker.sinks.delivery import Delivery
from services.worker.sinks.portions import Portion
from services.worker.sinks.position import Positions
from services.worker.sources.cutter import Cutter
from services.worker.sources.replaced import TopicGuard
from services.worker.sources.silences import Silences
from services.worker.sources.user_topic import SourceFeed
from services.worker.sources.waiting import Waiting
from services.worker.unit import beside, intake, trimmer
from services.worker.unit.intake import Intake
from services.worker.unit.kept import Kept
from services.worker.unit.outbox import Outbox
from services.worker.unit.outputs import Outputs
from services.worker.unit.publishing import ProgressPublisher
from services.worker.unit.running import Running
from tests.simulation.adapting import (
    commands_wait_for_the_controller,
    controllers_record_beats_a_command,
    cool_down_of_ones_own_changes_alone,
    drill_of_whatever_there_is,
    estimates_of_a_former_leader,
    no_cool_down,
    scheme_changed_during_a_switch,
)
from tests.simulation.bounded import bound_ignored, sent_before_forgotten
from tests.simulation.cut_mutants import (
    cuts_trimmed_to_an_own_estimate,
    cuts_trimmed_too_far,
    last_commit_trimmed,
    read_on_after_a_gap,
    rows_trimmed_too_far,
)
from tests.simulation.facts import mistaken
from tests.simulation.formats import format_raised_at_once, newest_format_written
from tests.simulation.gaps import (
    continued_before_the_gap_is_valid,
    gap_not_noted,
    gap_of_another_copy_not_noted,
    one_batch_not_counted,
    skipped_records_not_counted,
)
from tests.simulation.global_mutants import (
    acked_one_too_far,
    newest_marker_restored,
    runs_of_the_newest_marker_kept,
    void_markers_count,
)
from tests.simulation.hasty import settled_at_once
from tests.simulation.incident_mutants import (
    drivers_counted_as_workers,
    forgotten_by_the_next_replica,
    never_over,
    restored_in_the_order_of_the_file,
    restored_on_its_old_line,
    shared_units_paid_by_each,
    slots_no_limit,
    slots_of_other_replicas_free,
    standbys_before_restores,
    trimmed_in_an_incident,
    waiting_for_ever,
)
from tests.simulation.names import kind_of
from tests.simulation.paced_mutants import missing_records_not_looked_for
from tests.simulation.policy_mutants import (
    aligned_elsewhere,
    aligned_without_holding,
    batches_during_a_whole_checkpoint,
    captured_while_data_wait,
    confirmation_ignored,
    maximum_interval_ignored,
    merged_across_backups,
    minimum_interval_ignored,
    newest_paste_first,
    older_policy_counts,
    policy_not_taken_up,
    policy_of_no_scheme,
    swept_before_trimmed,
    ticks_of_all,
    ticks_of_its_own,
    two_captures_a_tick,
    two_captures_at_once,
)
from tests.simulation.raises import (
    any_record_of_code_that_raised_counts,
    batch_done_before_its_record_kept,
    outputs_not_held,
    rows_skipped_without_a_record,
)
from tests.simulation.retention_mutants import (
    asked_to_go_back_alone,
    ended_at_its_last_marker,
    read_from_its_marker_on_a_new_line,
    senders_not_taken_along,
    trimmed_to_what_was_processed,
    trimmed_whatever_has_failed,
)
from tests.simulation.spark_mutants import (
    batch_committed_twice,
    checkpoint_forgotten,
    drained_without_what_arrived,
    handed_to_a_driver_unrehearsed,
    standby_leads,
)
from tests.simulation.standby_mutants import (
    all_of_a_difference_moves,
    capacity_ignored,
    former_standby_let_go_first,
    new_standby_not_waited_for,
    places_taken_from_equals,
    priority_ignored,
    standbys_in_any_zone,
    standbys_on_one_peer,
)
from tests.simulation.upgrades import (
    accepted_once_and_for_all,
    differing_batches_counted,
    given_to_any_versions,
    shown_by_one_batch,
)

Bug = Callable[[], AbstractContextManager[object]]

RUN_MS = 5_000
"""How long faults come in a history that is to catch a bug."""


def _method(owner: Any, name: str) -> Callable[[Callable[..., Any]], Bug]:
    """The decorated function stands in for a method; it gets the true one first, and then what that one gets.

    A bug that takes other arguments would be caught by its own TypeError.
    """

    def decorate(instead: Callable[..., Any]) -> Bug:
        true = getattr(owner, name)
        takes = [*signature(true).parameters]
        assert [*signature(instead).parameters][1:] == takes, f"{instead.__name__}: {name} takes {', '.join(takes)}"

        def mutated(*args: Any, **kwargs: Any) -> Any:
            return instead(true, *args, **kwargs)

        def bug() -> AbstractContextManager[object]:
            return mock.patch.object(owner, name, mutated)

        bug.__name__ = instead.__name__
        return bug

    return decorate


# -- frames -----------------------------------------------------------------------------------------------------------


@_method(InputPartition, "offer")
def duplicates_taken(true: Any, self: InputPartition, offset: int, frame: bytes) -> bool:
    """The rows of a frame that is there already are added once more, as long as its batch is not done."""
    header = unpack_frame(frame)
    before = header.batch in self._writers[header.writer].batches
    taken = bool(true(self, offset, frame))
    payload = memoryview(frame)[HEADER_BYTES:]
    if before and not taken and len(payload):
        self._writers[header.writer].batches[header.batch][1].append(payload)
        self.bytes += len(payload)
    return taken


@_method(InputPartition, "position")
def position_behind_what_is_held(true: Any, self: InputPartition) -> int:
    """The input position of a marker is where the reader is, and not the first frame of a later batch."""
    return self._next_offset


@_method(InputPartition, "take")
def highest_watermark(true: Any, self: InputPartition, batch: int) -> Any:
    """The watermark of a batch is that of the fastest writer."""
    highest = max((w.batches[batch][0] for w in self._writers.values() if batch in w.batches), default=None)
    merged = true(self, batch)
    return merged if highest is None else replace(merged, watermark=highest)


@_method(InputPartition, "take")
def payloads_as_they_came(true: Any, self: InputPartition, batch: int) -> Any:
    """Not in writer order, but by who is ahead."""
    self._writers = dict(sorted(self._writers.items(), key=lambda item: -item[1].received))
    return true(self, batch)


@_method(InputPartition, "rewind")
def dropped_frames_not_read_again(true: Any, self: InputPartition) -> int | None:
    """What there was no room for while a writer was away is gone."""
    return None


@_method(InputPartition, "skip")
def jump_leaves_inputs(true: Any, self: InputPartition, batch: int, offset: int, ended: Any) -> None:
    """A copy that jumps to a marker keeps the frames up to it."""


# -- cuts -------------------------------------------------------------------------------------------------------------


def records_below_the_range() -> AbstractContextManager[object]:
    """What lies below the position is not dropped, and a batch is all that is held below its end."""

    def offer(self: Waiting, chunk: Chunk) -> None:
        self.fetched = chunk.messages[0].offset() if chunk.messages else self.fetched
        true_offer(self, chunk)

    def records(self: Waiting, start: int, stop: int) -> Records:
        some = slice(0, bisect_left(sorted(self.offsets), stop))
        return Records(self.offsets[some], self.values[some], self.stamps[some], self._keys_of(some))

    true_offer = Waiting.offer
    return mock.patch.multiple(Waiting, offer=offer, records=records)


@_method(CutLog, "_cut")
def last_cut_wins(true: Any, self: CutLog, cut: Any) -> bool:
    """A second proposal for a batch replaces the first."""
    before = self._tasks.get(cut.task)
    if before is not None and cut.batch == before.batch and not before.final and not self.paused:
        self._last.accept(cut.task, cut.id)
        self._tasks[cut.task] = structs.replace(before, last=cut.id, ranges=cut.ranges, watermark=cut.watermark)
        return True
    return bool(true(self, cut))


@_method(CutLog, "_control")
def pause_ignored(true: Any, self: CutLog, control: Any) -> bool:
    taken = bool(true(self, control))
    self.paused = False
    return taken


@_method(Cutter, "_append")
def cut_not_read_back(true: Any, self: Cutter, name: str, feed: SourceFeed, now_ms: float) -> None:
    """A proposal counts at once."""
    sent: list[tuple[bytes, Any]] = []
    partition = self._partition
    with mock.patch.object(self._around.appender, "append", lambda _, value, done: sent.append((value, done))):
        true(self, name, feed, now_ms)
    for value, done in sent:
        self._around.appender.append(partition, value, done=done)
        self.read(self.log.upto, value, feed.batch)


@_method(TopicGuard, "look")
def topic_ids_not_compared(true: Any, self: TopicGuard, log: CutLog, watch: TopicWatch, now_ms: float) -> Any:
    """A topic that was created again is read on where the old one was left."""
    return iter(())


@contextmanager
def read_on_by_offset_alone() -> Iterator[None]:
    """Besides, a reader whose position a topic does not have starts at its first record, as a client can be set to."""

    def read(self: MemoryReader, partition: Partition, count: int) -> Any:
        if self._positions[partition] > self._log.stored(partition).end:
            self._positions[partition] = 0
        return true(self, partition, count)

    true = MemoryReader._read
    with topic_ids_not_compared(), mock.patch.object(MemoryReader, "_read", read):
        yield


@_method(Share, "_nth")
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


@_method(Share, "joining")
def new_partitions_ignored(true: Any, self: Share, owned: int, partitions: int) -> Any:
    """Of a topic that has grown only the first partitions are read."""
    return ()


@_method(SourceFeed, "_decode")
def lost_records_brought(true: Any, self: SourceFeed, ranges: Any) -> Any:
    """A copy that can read what a cut names as lost brings it."""
    read = true(self, [structs.replace(r, lost=0) for r in ranges])
    return replace(
        read, ranges=tuple(structs.replace(r, lost=asked.lost) for r, asked in zip(read.ranges, ranges, strict=True))
    )


@_method(Waiting, "lose")
def gone_records_passed_over(true: Any, self: Waiting, start: int) -> None:
    """Records that are gone are not cut as lost, but lie within an ordinary cut."""
    self.fetched = max(self.fetched, start)


@_method(Silences, "ask")
def unconfirmed_end_is_idle(true: Any, self: Silences, feed: Any, now_ms: float) -> None:
    """A partition is idle once the reader has met its end: nobody asks Kafka whether it ends there still."""
    if feed.idling is None:
        return
    standings = feed.standings()
    question = feed.idling.question(standings, *self._levels(feed.task.name, feed.idling), now_ms)
    if question is not None:
        met = {partition: standing.position for partition, standing in standings.items()}
        feed.idling.answered(question, met, standings)


@_method(Cutter, "_held")
def tables_not_waited_for(true: Any, self: Cutter, name: str) -> bool:
    """A stream brings its records while the table that it joins is still being loaded."""
    return False


@_method(Cutter, "as_of")
def marker_with_newest_cuts(true: Any, self: Cutter, batch: int) -> CutsSnapshot | None:
    """A marker holds the cut log as it is, and not as of its batch."""
    true(self, batch)
    return self.log.snapshot() if self.feeds else None


@_method(Counting, "slowest")
def every_unit_counts(
    true: Any, self: Counting, own: str, processed: Any, newest: int, now_ms: float, runs: Any
) -> int:
    """Sources wait for the slowest unit, also for one that has no place."""
    return min(processed.values(), default=0)


# -- checkpoints ------------------------------------------------------------------------------------------------------


@_method(CheckpointLog, "_marker")
def older_runs_valid(true: Any, self: CheckpointLog, offset: int, marker: Marker) -> Run | None:
    """prev counts, but not the batch; and without prev anything goes."""
    self.last_b = marker.b - 1
    self.last_id = marker.prev
    run: Run | None = true(self, offset, marker)
    return run


@_method(CheckpointLog, "_marker")
def parts_counted_whatever_came_between(true: Any, self: CheckpointLog, offset: int, marker: Marker) -> Run | None:
    """A run is valid with the parts that are left of it, and prev does not count."""
    if marker.b <= self.last_b:
        return None
    self.last_id = marker.prev
    kept = [part for _, part in self._pending.get(marker.id, [])]
    self._pending[marker.id] = [(offset, structs.replace(part, index=i)) for i, part in enumerate(kept)]
    run: Run | None = true(self, offset, structs.replace(marker, parts=len(kept)))
    return run


@_method(CheckpointLog, "_marker")
def parts_of_two_copies_mixed(true: Any, self: CheckpointLog, offset: int, marker: Marker) -> Run | None:
    """The parts before a marker are its own, also those of another author."""
    others = [part for id, parts in self._pending.items() if id != marker.id for _, part in parts]
    run: Run | None = true(self, offset, marker)
    return None if run is None else replace(run, parts=(*run.parts, *others))


@_method(Outbox, "acknowledged")
def marker_before_frames(true: Any, self: Outbox, processed: int) -> int:
    """A marker does not wait for its frames to be acknowledged."""
    return processed


@_method(Delivery, "committed")
def marker_before_transactions(true: Any, self: Delivery, processed: int) -> int:
    """A marker does not wait for its rows to be committed."""
    return processed


@_method(StateTable, "capture")
def capture_sees_later_values(true: Any, self: StateTable) -> Mapping[bytes, Any]:
    frozen = true(self)
    table = self

    class Later(dict[bytes, Any]):
        def items(self) -> Any:
            return ((key, table._values.get(key)) for key in list(self))

    return Later(frozen)


@_method(StateTable, "thaw")
def refused_run_counts(true: Any, self: StateTable) -> None:
    """Dirty entries are forgotten although their marker is not valid."""
    self._frozen = {}


@_method(Parts, "_part")
def lost_sweep_slice(true: Any, self: Parts, entries: list[Entry], sweep: bool) -> int:
    """What a slice is to hold is not written, but counts as written."""
    return 0 if sweep else int(true(self, entries, sweep))


@_method(Applier, "_piece")
def any_run_applied(true: Any, self: Applier, batch: int, suspended: bool) -> None:
    """A run that does not fit the image is applied anyway.

    Nothing can come of this alone: a copy takes every valid run in the order of the log, and a run's `a` is its
    author's image, which is no newer than the last valid marker. That no run is missed is the second rule: a reader
    that finds its position trimmed away starts over (`any_run_applied_though_one_was_missed` leaves out both).
    """
    self._image.batch = max(self._image.batch, self._runs[0].marker.a)
    true(self, batch, suspended)


@contextmanager
def any_run_applied_though_one_was_missed() -> Iterator[None]:
    """Every second run of another copy is not read, and the next run is applied anyway."""
    true = Applier.add

    def add(self: Applier, run: Run) -> None:
        if not run.marker.id.counter % 2:
            true(self, run)

    with any_run_applied(), mock.patch.object(Applier, "add", add):
        yield


@_method(Applier, "_apply_delta")
def deletions_not_applied(true: Any, self: Applier, run: Run) -> Iterator[None]:
    for part in run.parts:
        if not part.sweep:
            self._image.apply([entry for entry in unpack(part.entries) if entry[1] is not None])
    yield


@_method(Applier, "finish")
def run_left_half_applied(true: Any, self: Applier, batch: int) -> None:
    """A copy that is activated does not finish what it was applying."""
    self._runs.clear()
    self._applying = None


@_method(CheckpointLog, "anchor")
def _anchor_at_the_last_marker(true: Any, self: CheckpointLog) -> Anchor | None:
    """The anchor is the last run, and not the last complete sweep."""
    return None if self.last is None or self.base is None else Anchor(self.base + 3, self.last_id, self.last_b)


@_method(restoring, "restore")
def restore_from_the_last_run(true: Any, records: Any, line: int = 0, at: int = 0) -> Any:
    """Only the newest run is applied."""
    log, runs = true(records, line, at)
    return log, iter(list(runs)[-1:])


# -- acks and trims ---------------------------------------------------------------------------------------------------


@_method(trimmer, "acknowledged")
def trimmed_one_too_far(true: Any, partition: Any, readers: Any, progress: Any, batch: int) -> int:
    upto = int(true(partition, readers, progress, batch))
    return upto + 1 if upto else upto


@_method(trimmer, "acknowledged")
def trimmed_for_the_fastest(true: Any, partition: Any, readers: Any, progress: Any, batch: int) -> int:
    """To the maximum of what the readers need."""
    return max((int(true(partition, [reader], progress, batch)) for reader in readers), default=0)


@_method(ProgressPublisher, "progress")
def ack_without_a_marker(true: Any, self: ProgressPublisher) -> Any:
    """What is processed is acknowledged."""
    done = self._processing
    return structs.replace(true(self), acked=done.batch, positions=tuple(done._intake.inputs.positions()))


# -- the broker -------------------------------------------------------------------------------------------------------


def absent_leader_believed() -> AbstractContextManager[object]:
    """What is said of a partition whose leader is away counts: it begins and ends at 0, so it is empty.

    A position is none, a checkpoint log is without a marker, a drain ends before its source. Alone it does not show:
    what was acknowledged and what is cut contradict it. It is part of the two bugs below.
    """

    def offsets(self: MemoryLog, partitions: Any, at: Any) -> dict[Partition, int]:
        return {p: 0 if p in self.away else true_offsets(self, [p], at)[p] for p in partitions}

    def scan(self: MemoryLog, partition: Partition, start: int | None = None) -> Any:
        return iter(()) if partition in self.away else true_scan(self, partition, start)

    def last(self: MemoryLog, partition: Partition, settled: bool = False) -> Any:
        return None if partition in self.away else true_last(self, partition, settled)

    true_offsets, true_scan, true_last = MemoryLog.offsets, MemoryLog.scan, MemoryLog.last
    return mock.patch.multiple(MemoryLog, offsets=offsets, scan=scan, last=last)


@contextmanager
def drained_by_anything() -> Iterator[None]:
    """Besides, a drain is valid whatever its ends are, and nobody compares them with what is cut."""
    with (
        absent_leader_believed(),
        mock.patch.object(CutLog, "_drains", return_value=True),
        mock.patch.object(ends, "_compare", return_value=None),
    ):
        yield


@contextmanager
def position_gone_unnoticed() -> Iterator[None]:
    """Besides, no marker says up to where rows were delivered, and nobody asks what was acknowledged."""

    def unknowing(log: Any, partition: Partition, image: Any, acked: int, *rest: Any) -> Any:
        return restoring.rebuild(log, partition, image, 0, *rest)

    def moment(self: Running) -> Any:
        return replace(true_moment(self), position=0)

    true_moment = Running.moment
    with (
        absent_leader_believed(),
        mock.patch.object(beside, "rebuild", unknowing),
        mock.patch.object(Running, "moment", moment),
    ):
        yield


# -- sinks ------------------------------------------------------------------------------------------------------------


@_method(MemoryLog, "holds")
def no_fencing(true: Any, self: MemoryLog, transactional_id: str, holder: Any) -> bool:
    return True


@_method(Portion, "failed")
def as_much_once_more(true: Any, self: Portion) -> None:
    """After a transaction that did not get through the next one holds as much."""


@_method(Delivery, "open")
def position_read_before_the_fence(true: Any, self: Delivery, opened: Any) -> None:
    """Position first, and only then the id is taken over."""

    def read(outcome: Any) -> None:
        early = outcome
        true(self, lambda _: use(early))

    def use(early: Any) -> None:
        if not isinstance(early, Exception):
            self.delivered = early
        opened(self.delivered)

    def position() -> int:
        last = self._log.last(self._position)
        return 0 if last is None else delivered.decode(last.value() or b"").batch

    self._run(position, read)


@_method(Delivery, "_opened")
def _position_unread(true: Any, self: Delivery, outcome: Any, opened: Any) -> None:
    """A delivery begins as if nothing were delivered."""
    true(self, outcome if isinstance(outcome, Exception) else (outcome[0], None), opened)


@contextmanager
def delivered_position_ignored() -> Iterator[None]:
    """What is delivered already is delivered again, and nobody compares the position with that of a marker."""
    true = Outputs.deliver_by

    def deliver_by(self: Outputs, delivery: Delivery, known: int) -> None:
        true(self, delivery, 0)

    with _position_unread(), mock.patch.object(Outputs, "deliver_by", deliver_by):
        yield


@_method(Delivery, "_committed")
def blind_retry(true: Any, self: Delivery, outcome: Any) -> None:
    """After a commit of which nobody knows, the id is taken again and the commit repeated."""

    def again() -> tuple[int, int]:
        assert self._transactor is not None
        self._transactor.start()
        return self._commit()

    if isinstance(outcome, Indefinite) and not self._closed:
        self._run(again, self._committed)
    else:
        true(self, outcome)


@_method(Delivery, "_committed")
def rows_for_an_absent_sink_dropped(true: Any, self: Delivery, outcome: Any) -> None:
    """Rows for a topic that is gone count as delivered."""
    true(self, (0, 0) if isinstance(outcome, TopicGone) else outcome)


@_method(Outputs, "keep_rows")
def rows_in_doubt_forgotten(true: Any, self: Outputs) -> None:
    """What a commit without an answer held is not delivered again."""
    self._delivery = None


@_method(Delivery, "_next")
def position_in_a_transaction_of_its_own(true: Any, self: Delivery) -> None:
    """Rows first, then the position."""
    if self._under_way or not self._waiting or self._transactor is None:
        return
    self._under_way = [self._waiting.popleft()]
    transactor, batch = self._transactor, self._under_way[0]

    def position() -> tuple[int, int]:
        transactor.commit([self._position_rows(0)])
        return 1, 0

    def rows(outcome: Any) -> None:
        if isinstance(outcome, Exception):
            self._committed(outcome)
        else:
            self._run(position, self._committed)

    self._run(lambda: transactor.commit(self._rows(batch)), rows)


@_method(Outputs, "deliver_by")
def unsent_rows_forgotten(true: Any, self: Outputs, delivery: Delivery, known: int) -> None:
    """A standby that takes over delivers only what comes after."""
    self._kept.rows.clear()
    true(self, delivery, known)


@_method(Outputs, "send_kept")
def unsent_frames_forgotten(true: Any, self: Outputs, marker: Marker | None) -> None:
    """A standby that takes over sends only what comes after."""
    self._kept.sent.clear()


@_method(Kept, "forget")
def kept_too_short(true: Any, self: Kept, batch: int) -> None:
    """Any marker empties what is kept."""
    true(self, 2**62)


@_method(Intake, "hold")
def suspended_copies_hold(true: Any, self: Intake, batch: int, suspended: bool) -> None:
    """An input that another unit of the worker reads, and for which its own leader waits."""
    true(self, batch, False)


# -- decisions --------------------------------------------------------------------------------------------------------


@_method(Assigned, "read")
def any_epoch_valid(true: Any, self: Assigned, record: Any) -> list[Any]:
    """An old record counts as a new one."""
    for change in record.changes:
        known = self._units.get(change.unit)
        if known is not None and change.epoch <= known.epoch:
            del self._units[change.unit]
            if change.epoch > 1:
                self._units[change.unit] = type(change)(change.unit, change.epoch - 1)
    return list(true(self, record))


@_method(Standings, "snapshot")
def snapshot_upto_one_too_high(true: Any, self: Standings) -> Snapshot:
    """A snapshot claims the next record, too."""
    made: Snapshot = true(self)
    return structs.replace(made, upto=self.next + 1)


def snapshot_of_invalid_changes() -> AbstractContextManager[object]:
    """A snapshot holds what was proposed last, valid or not."""
    proposed: dict[tuple[int, str], Standing] = {}
    true_read, true_snapshot = Standings.read, Standings.snapshot

    def read(self: Standings, offset: int, record: Assignment) -> list[Change]:
        proposed.update(((id(self), change.unit), Standing(offset, change)) for change in record.changes)
        return true_read(self, offset, record)

    def snapshot(self: Standings) -> Snapshot:
        made: Snapshot = true_snapshot(self)
        units = tuple(proposed.get((id(self), one.change.unit), one) for one in made.units)
        return structs.replace(made, units=units)

    return mock.patch.multiple(Standings, read=read, snapshot=snapshot)


@_method(Standings, "snapshot")
def snapshot_without_goals(true: Any, self: Standings) -> Snapshot:
    """A snapshot holds units alone: who begins with it does not know what is wanted of their jobs."""
    made: Snapshot = true(self)
    return structs.replace(made, goals=())


@_method(Standings, "_read_goal")
def last_goal_wins(true: Any, self: Standings, offset: int, goal: Goal) -> None:
    """A stop is not final: what is stated behind it counts."""
    self._past.put(offset, goal.job_key, GoalStanding(offset, goal))


def snapshot_taken_for_the_present() -> AbstractContextManager[object]:
    """A late reader continues at the end of the log, and not at the `upto` of the snapshot that it begins with."""
    true = late._from

    def behind(messages: Any, upto: int) -> Any:
        return true(messages, messages[-1].offset())

    def first(found: Any, start: int, plausible: Any) -> Snapshot | None:
        return found[0][1] if found else None

    return mock.patch.multiple(late, _from=behind, base_of=first)


@_method(Trims, "due")
def trimmed_to_the_present(true: Any, self: Trims, now_us: int) -> Any:
    """A log is trimmed beyond the snapshot: to what was the end when that was read back."""
    upto = true(self, now_us)
    return upto and {partition: offset + 1 for partition, offset in upto.items()}


@_method(Trims, "due")
def trimmed_to_the_last_snapshot(true: Any, self: Trims, now_us: int) -> Any:
    """A late reader finds one snapshot and nothing to compare it with."""
    due = true(self, now_us) is not None
    return self._agreed[-1][1] if due else None


def differing_snapshots_written() -> AbstractContextManager[object]:
    """Two replicas state two things of the same moment, and each believes both."""

    true_write = Snapshotting._write

    def write(self: Snapshotting) -> None:
        made = self._known.standings.snapshot()
        if crc32(self._name.encode()) % 2:
            made = structs.replace(made, goals=())
        with mock.patch.object(Standings, "snapshot", return_value=made):
            true_write(self)

    return mock.patch.multiple(Snapshotting, _write=write, _check=lambda *_: None)


def gap_passed_over() -> AbstractContextManager[object]:
    """A reader that a trim has overtaken continues at the start of the log, as a consumer of Faust does."""
    true = MemoryReader.poll

    def poll(self: MemoryReader, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        try:
            return true(self, timeout_s, max_messages)
        except PositionGone as gone:
            if kind_of(gone.partition.topic) not in ("assignments", "plans", "submit"):
                raise
            self.assign(self._log.offsets([gone.partition], "start"))
            return []

    return mock.patch.object(MemoryReader, "poll", poll)


@_method(Goals, "to_retire")
def retired_before_the_end(true: Any, self: Goals, jobs: Any, upto: int, now_ms: int) -> Any:
    """A job whose units are without copies counts as over before its end is decided."""
    before = {job.generation: job.life.phase for job in jobs}
    for job in jobs:
        if self.stop(job) is not None:
            job.life.phase = Phase.ENDED
    try:
        return true(self, jobs, upto, now_ms)
    finally:
        for job in jobs:
            job.life.phase = before[job.generation]


@_method(Submissions, "kept")
def commands_forgotten(true: Any, self: Submissions, upto: int, known: Any) -> Any:
    """A snapshot of jobs leaves out what their users have asked for."""
    return ()


@_method(Submissions, "decided")
def undecided_job_left_behind(true: Any, self: Submissions, known: Any, retired: Retired) -> int:
    """A snapshot of jobs goes beyond a job that nobody has decided yet: its record is trimmed."""
    return self.next


@_method(Jobs, "to_retire")
def newest_job_retired(true: Any, self: Jobs, upto: int, most: int | None) -> Any:
    """What is retired reaches beyond what is decided."""
    retired = true(self, upto, most)
    return retired and structs.replace(retired, below=retired.below + 1)


@_method(Assigned, "_retire")
def forgotten_without_a_trace(true: Any, self: Assigned, retired: Retired) -> None:
    """Units of ended jobs are forgotten, and nothing says that they were: an old placement is a first one."""
    true(self, retired)
    self.retired = Retired()


@_method(late, "_from")
def records_below_a_snapshot_once_more(true: Any, messages: Any, upto: int) -> Any:
    """A late reader applies records below `upto` to the snapshot.

    Nothing can come of this: their epochs are not above those that the snapshot has, so none of them is valid.
    """
    return true(messages, 0)


@_method(Detector, "read")
def exit_hits_the_next_incarnation(true: Any, self: Detector, record: Any) -> None:
    """An exit notice counts for every incarnation of the worker, also later ones."""
    if isinstance(record, Exit) and record.worker in self._pulses:
        record = Exit(record.worker, "9", record.time_ms, record.status)
    true(self, record)


@_method(Detector, "_hear")
def age_of_the_turn_ignored(true: Any, self: Detector, pulse: Any, beat: Any) -> None:
    """A heartbeat is a sign of life, whatever it says of the loop."""
    true(self, pulse, structs.replace(beat, turn=None))


@_method(Detector, "gone")
def nobody_is_ever_gone(true: Any, self: Detector, worker: str, incarnation: str, fail_stop_us: int) -> bool:
    return False


def never_in_quarantine() -> AbstractContextManager[object]:
    """A unit that ends its workers gets another one each time."""
    return mistaken(blame, "deadly", lambda situation: False)


def suspects_do_not_wait() -> AbstractContextManager[object]:
    """A unit that ended a worker by itself is given to the next one at once, whatever else the first one had."""
    return mistaken(blame, "suspect", lambda situation: False)


@_method(Crashes, "read")
def innocent_unit_blamed(true: Any, self: Crashes, record: Any, now_us: int) -> Any:
    """What ended a worker is taken to be another unit's work: that of the one it reported first."""
    if isinstance(record, Exit):
        others = {at: [unit for unit in self.__dict__.get("hosted", ()) if unit != at.unit] for at in record.at}
        record = structs.replace(record, at=tuple(At(named[0], at.batch) for at, named in others.items() if named))
    else:
        self.__dict__["hosted"] = sorted({*self.__dict__.get("hosted", ()), *(copy.unit for copy in record.copies)})
    return true(self, record, now_us)


@_method(Crashes, "_next")
def crashes_counted_wherever_they_were(true: Any, self: Crashes, at: At, record: Any, now_us: int) -> Any:
    """Three crashes at a unit's work are enough, whether they were in a row and at one batch or not."""
    counts = self.__dict__.setdefault("counts", Counter[str]())
    counts[at.unit] += 1
    return replace(true(self, at, record, now_us), count=counts[at.unit])


def handed_over_at_once() -> AbstractContextManager[object]:
    """A unit that moves is handed to its new copy without waiting for that to catch up: nobody processes it."""
    return mistaken(moving, "arrived", lambda situation: True)


def standby_let_go_first() -> AbstractContextManager[object]:
    """A unit that moves to a third worker is left unprotected until the new copy has caught up."""

    def begin(situation: Situation, rooms: Any) -> Any:
        copies = moving.begin(situation, rooms)
        return None if copies is None else (copies[0], copies[-1])

    return mock.patch.dict(MOVES, {Move.BEGIN: begin})


@_method(_Load, "imbalance")
def balanced_to_and_fro(true: Any, self: _Load, left: str, taken: str) -> Any:
    """A unit moves, too, where that makes nothing better."""
    return true(self, left, taken) - 0.01


@_method(Copies, "reconcile")
def copies_never_closed(true: Any, self: Copies[Any]) -> None:
    """What an assignment no longer names continues."""
    for key, named in self._decisions.named().items():
        self._place(key, named)


@_method(Admitted, "named")
def name_in_use_admitted(true: Any, self: Admitted, job: str) -> None:
    """A second job of a name is taken while the first runs."""


@_method(Intake, "_hold_one")
def slow_writer_paused(true: Any, self: Intake, partition: Any, full: bool, drained: bool) -> None:
    """A partition that holds much is paused although the unit waits for a frame that is behind it."""
    kept = dict(self.inputs.kept_bytes()).get(partition)
    if kept is not None:
        full, drained = kept > intake.MAX_INPUT_BYTES, kept < intake.MAX_INPUT_BYTES // 2
    true(self, partition, full, drained)


def fenced_copy_starts_again_unread() -> AbstractContextManager[object]:
    """A fenced copy takes its id again at once."""
    row = (lifecycle.State.RUNNING, lifecycle.OutputFenced, None)
    again = (lifecycle.State.RESTORING, lifecycle._REBUILD)
    return mock.patch.dict(lifecycle.TRANSITIONS, {row: again})


def refused_run_settled() -> AbstractContextManager[object]:
    """A run that is refused is settled anyway."""
    return mock.patch.dict(checkpointing._READ_BACK, {False: checkpointing._READ_BACK[True]})


# -- strangers --------------------------------------------------------------------------------------------------------


@_method(Positions, "_believed")
def any_position_believed(true: Any, self: Positions, message: Any) -> Any:
    """A delivered position ahead of every batch is believed."""
    try:
        return delivered.decode(message.value() or b"")
    except msgspec.DecodeError:
        return true(self, message)


@_method(Wants, "of")
def unplaced_ends_a_unit(true: Any, self: Wants, unit: str, standings: Standings) -> Any:
    """An assignment without copies ends its unit, whoever wrote it, and whatever is wanted of the job."""
    change = standings.assigned.of(unit)
    return None if change is not None and not change.copies else true(self, unit, standings)


@_method(CheckpointLog, "read")
def any_anchor_believed(true: Any, self: CheckpointLog, offset: int, record: Any) -> Any:
    """An anchor names a base, whatever it says."""
    if isinstance(record, Anchor):
        self.anchored = max(self.anchored, record.upto)
        return None
    return true(self, offset, record)


@contextmanager
def trim_to_the_last_marker() -> Iterator[None]:
    """The anchor is the last run, and not the last complete sweep; and it is believed, against the fold."""
    with _anchor_at_the_last_marker(), any_anchor_believed():
        yield


def retired_forgotten_at_a_start() -> AbstractContextManager[object]:
    """Controllers and recovery begin with the jobs of a snapshot, and not with what it says is retired."""
    return mock.patch.object(log_of_jobs, "Retirement", return_value=Retirement(Retired()))


class Mutant(NamedTuple):
    """A bug, the checker that notices it before any other does, and the seed of a history in which it does.

    checker: as Outcome.kind has it. profile: under which the history is drawn. run_ms: how long faults come in it.
    """

    bug: Bug
    checker: str
    seed: int
    profile: str = ""
    run_ms: int = RUN_MS

    @property
    def name(self) -> str:
        return self.bug.__name__

    def __repr__(self) -> str:
        """As it stands in MUTANTS."""
        parts = [self.name, f'"{self.checker}"', str(self.seed)]
        if self.profile:
            parts.append(f'"{self.profile}"')
        if self.run_ms != RUN_MS:
            parts.append(f"run_ms={self.run_ms:_}")
        return f"Mutant({', '.join(parts)})"


MUTANTS: tuple[Mutant, ...] = (
    Mutant(trim_to_the_last_marker, "trim", 0),
    Mutant(nobody_is_ever_gone, "liveness", 0),
    Mutant(copies_never_closed, "liveness", 0),
    Mutant(highest_watermark, "replay differs", 1),
    Mutant(parts_counted_whatever_came_between, "image", 6, run_ms=1_500),
    Mutant(marker_before_transactions, "replay differs", 1, run_ms=1_500),
    Mutant(lost_sweep_slice, "image", 1),
    Mutant(trimmed_one_too_far, "trim", 1),
    Mutant(ack_without_a_marker, "trim", 8, run_ms=1_500),
    Mutant(delivered_position_ignored, "delivered", 1),
    Mutant(unsent_rows_forgotten, "replay differs", 38, run_ms=1_500),
    Mutant(exit_hits_the_next_incarnation, "liveness", 1, run_ms=1_500),
    Mutant(slow_writer_paused, "liveness", 21),
    Mutant(any_epoch_valid, "copy", 92),
    Mutant(name_in_use_admitted, "raised", 3),
    Mutant(pause_ignored, "replay", 5),
    Mutant(restore_from_the_last_run, "image", 21),
    Mutant(records_below_the_range, "replay differs", 0, run_ms=1_500),
    Mutant(snapshot_upto_one_too_high, "snapshot", 1),
    Mutant(snapshot_of_invalid_changes, "snapshot", 1),
    Mutant(snapshot_without_goals, "snapshot", 1),
    Mutant(snapshot_taken_for_the_present, "beginning", 1, run_ms=1_500),
    Mutant(trimmed_to_the_present, "root", 0),
    Mutant(trimmed_to_the_last_snapshot, "root", 0, run_ms=1_500),
    Mutant(differing_snapshots_written, "snapshot", 3, run_ms=1_500),
    Mutant(gap_passed_over, "fold", 5, run_ms=2_500),
    Mutant(retired_before_the_end, "retired", 0, run_ms=1_500),
    Mutant(commands_forgotten, "snapshot", 0, run_ms=1_500),
    Mutant(undecided_job_left_behind, "snapshot", 104, "leaders"),
    Mutant(newest_job_retired, "retired", 3, "lives", run_ms=3_500),
    Mutant(forgotten_without_a_trace, "snapshot", 1, "lives", run_ms=3_500),
    Mutant(last_cut_wins, "divergence", 6),
    Mutant(duplicates_taken, "replay differs", 45),
    Mutant(jump_leaves_inputs, "ack", 18),
    Mutant(deletions_not_applied, "image", 1, "two-in-charge"),
    Mutant(refused_run_counts, "state", 98, "two-in-charge"),
    Mutant(trimmed_for_the_fastest, "trim", 3, "two-in-charge"),
    Mutant(any_run_applied_though_one_was_missed, "image", 3, "two-in-charge"),
    Mutant(marker_before_frames, "marker", 4, "two-in-charge"),
    Mutant(payloads_as_they_came, "state", 75, "standby"),
    Mutant(position_behind_what_is_held, "liveness", 5, "fan-out", run_ms=2_500),
    Mutant(older_runs_valid, "trim", 12, "runs"),
    Mutant(refused_run_settled, "image", 16, "runs"),
    Mutant(marker_with_newest_cuts, "marker", 21, "runs"),
    Mutant(parts_of_two_copies_mixed, "image", 12, "runs"),
    Mutant(tables_not_waited_for, "table", 9, "table", run_ms=1_500),
    Mutant(taken_by_two_owners, "replay", 9, "growth", run_ms=1_500),
    Mutant(any_position_believed, "replay differs", 0, "strangers"),
    Mutant(unplaced_ends_a_unit, "liveness", 0, "strangers"),
    Mutant(last_goal_wins, "snapshot", 0, "lives"),
    Mutant(any_anchor_believed, "trim", 10, "strangers", run_ms=2_500),
    Mutant(joined_in_the_middle, "replay", 0, "growth", run_ms=2_500),
    Mutant(new_partitions_ignored, "partitions", 0, "growth"),
    Mutant(drained_by_anything, "drain", 4, "leaders", run_ms=1_500),
    Mutant(unconfirmed_end_is_idle, "gives way", 1, "idle"),
    Mutant(position_gone_unnoticed, "delivered", 5, "leaders", run_ms=3_500),
    Mutant(capture_sees_later_values, "state", 13, "half-pasted", run_ms=1_500),
    Mutant(run_left_half_applied, "divergence", 8, "half-pasted", run_ms=2_500),
    Mutant(cut_not_read_back, "divergence", 9, "takeovers", run_ms=1_500),
    Mutant(no_fencing, "delivered", 11, "takeovers"),
    Mutant(position_in_a_transaction_of_its_own, "replay differs", 2, "takeovers", run_ms=2_500),
    Mutant(fenced_copy_starts_again_unread, "fenced", 11, "takeovers"),
    Mutant(position_read_before_the_fence, "delivered", 14, "takeovers"),
    Mutant(as_much_once_more, "greedy", 4, "short-lived"),
    Mutant(blind_retry, "delivered", 3, "takeovers", run_ms=3_500),
    Mutant(rows_in_doubt_forgotten, "replay differs", 3, "takeovers", run_ms=1_500),
    Mutant(unsent_frames_forgotten, "marker", 24, "unsent"),
    Mutant(kept_too_short, "marker", 29, "unsent"),
    Mutant(suspended_copies_hold, "liveness", 49, "incidents"),
    Mutant(topic_ids_not_compared, "replaced", 0, "renewed"),
    Mutant(read_on_by_offset_alone, "replaced", 0, "renewed"),
    Mutant(rows_for_an_absent_sink_dropped, "replay differs", 0, "renewed"),
    Mutant(handed_over_at_once, "move", 0, "moves"),
    Mutant(standby_let_go_first, "move", 2, "moves"),
    Mutant(balanced_to_and_fro, "balance", 9, "balance", run_ms=1_500),
    Mutant(standbys_on_one_peer, "group", 8, "standbys", run_ms=2_500),
    Mutant(former_standby_let_go_first, "reformation", 0, "standbys", run_ms=1_500),
    Mutant(new_standby_not_waited_for, "reformation", 0, "standbys", run_ms=1_500),
    Mutant(standbys_in_any_zone, "zone", 4, "standbys", run_ms=1_500),
    Mutant(all_of_a_difference_moves, "amount", 2, "standbys", run_ms=1_500),
    Mutant(capacity_ignored, "capacity", 1, "shared", run_ms=1_500),
    Mutant(priority_ignored, "priority", 1, "shared", run_ms=1_500),
    Mutant(places_taken_from_equals, "liveness", 0, "shared", run_ms=1_500),
    Mutant(settled_at_once, "raised", 3, "unsettled", run_ms=2_500),
    Mutant(age_of_the_turn_ignored, "liveness", 2, "hangs", run_ms=1_500),
    Mutant(every_unit_counts, "stopped", 0, "unplaced", run_ms=16_000),
    Mutant(dropped_frames_not_read_again, "liveness", 5, "unplaced"),
    Mutant(lost_records_brought, "divergence", 32, "losses"),
    Mutant(gone_records_passed_over, "replay", 4, "losses", run_ms=2_500),
    Mutant(never_in_quarantine, "liveness", 2, "deadly", run_ms=1_500),
    Mutant(innocent_unit_blamed, "quarantine", 2, "deadly", run_ms=1_500),
    Mutant(crashes_counted_wherever_they_were, "quarantine", 12, "deadly"),
    Mutant(suspects_do_not_wait, "suspect", 5, "deadly", run_ms=1_500),
    Mutant(given_to_any_versions, "unproved", 9, "upgrades", run_ms=2_500),
    Mutant(shown_by_one_batch, "unproved", 9, "upgrades", run_ms=3_500),
    Mutant(differing_batches_counted, "differing", 16, "upgrades"),
    Mutant(accepted_once_and_for_all, "unproved", 40, "upgrades"),
    Mutant(format_raised_at_once, "format", 3, "formats"),
    Mutant(newest_format_written, "format", 3, "formats"),
    Mutant(batch_committed_twice, "commits", 12, "spark"),
    Mutant(checkpoint_forgotten, "commits", 4, "spark"),
    Mutant(drained_without_what_arrived, "commits", 1, "spark", run_ms=1_500),
    Mutant(handed_to_a_driver_unrehearsed, "move", 4, "spark-leaves", run_ms=1_500),
    Mutant(standby_leads, "raised", 0, "spark"),
    Mutant(cuts_trimmed_too_far, "cut trim", 8, "trimmed", run_ms=1_500),
    Mutant(cuts_trimmed_to_an_own_estimate, "cut trim", 5, "trimmed", run_ms=1_500),
    Mutant(last_commit_trimmed, "commit trim", 0, "spark-trimmed"),
    Mutant(read_on_after_a_gap, "not cut", 29, "outrun"),
    Mutant(aligned_elsewhere, "aligned", 2, "aligned", run_ms=1_500),
    Mutant(aligned_without_holding, "aligned", 7, "aligned", run_ms=1_500),
    Mutant(two_captures_at_once, "captures", 6, "idle-captures"),
    Mutant(merged_across_backups, "merged", 7, "merged"),
    Mutant(minimum_interval_ignored, "interval", 8, "idle-captures", run_ms=1_500),
    Mutant(captured_while_data_wait, "not idle", 9, "idle-captures", run_ms=2_500),
    Mutant(maximum_interval_ignored, "overdue", 0, "idle-silence", run_ms=1_500),
    Mutant(confirmation_ignored, "unconfirmed", 9, "idle-silence", run_ms=1_500),
    Mutant(newest_paste_first, "paste order", 9, "merged", run_ms=2_500),
    Mutant(batches_during_a_whole_checkpoint, "whole", 6, "whole-worker", run_ms=3_500),
    Mutant(ticks_of_its_own, "overdue", 2, "timed", run_ms=1_500),
    Mutant(two_captures_a_tick, "tick", 9, "timed", run_ms=1_500),
    Mutant(ticks_of_all, "interval", 4, "timed", run_ms=1_500),
    Mutant(swept_before_trimmed, "sweep order", 5, run_ms=1_500),
    Mutant(acked_one_too_far, "global trim", 0, "rollbacks", run_ms=2_500),
    Mutant(runs_of_the_newest_marker_kept, "global restore", 1, "rollbacks", run_ms=2_500),
    Mutant(newest_marker_restored, "complete", 3, "rollbacks", run_ms=2_500),
    Mutant(void_markers_count, "complete", 1, "rollbacks", run_ms=3_500),
    Mutant(restored_in_the_order_of_the_file, "plan", 18, "incidents", run_ms=2_500),
    Mutant(shared_units_paid_by_each, "plan", 27, "incidents", run_ms=2_500),
    Mutant(slots_no_limit, "slots", 7, "incidents", run_ms=2_500),
    Mutant(standbys_before_restores, "slots", 182, run_ms=15_000),
    Mutant(retired_forgotten_at_a_start, "raised", 284, run_ms=15_000),
    Mutant(restored_on_its_old_line, "incident line", 2, "incidents", run_ms=2_500),
    Mutant(never_over, "incident open", 2, "incidents", run_ms=1_500),
    Mutant(waiting_for_ever, "liveness", 0, "incidents", run_ms=2_500),
    Mutant(forgotten_by_the_next_replica, "turn", 4, "incidents", run_ms=3_500),
    Mutant(trimmed_in_an_incident, "global restore", 8, "incidents", run_ms=2_500),
    Mutant(drivers_counted_as_workers, "plan", 0, "spark-incidents", run_ms=2_500),
    Mutant(slots_of_other_replicas_free, "slots", 428, "spark-incidents"),
    Mutant(trimmed_to_what_was_processed, "line trim", 1, "retention", run_ms=1_500),
    Mutant(trimmed_whatever_has_failed, "line trim", 6, "retention", run_ms=1_500),
    Mutant(senders_not_taken_along, "taken along", 2, "retention", run_ms=1_500),
    Mutant(asked_to_go_back_alone, "taken along", 3, "retention", run_ms=1_500),
    Mutant(ended_at_its_last_marker, "ended early", 1, "retention", run_ms=1_500),
    Mutant(read_from_its_marker_on_a_new_line, "failed copy", 27, "retention", run_ms=1_500),
    Mutant(missing_records_not_looked_for, "liveness", 36, "paced", run_ms=2_500),
    Mutant(policy_not_taken_up, "policy", 3, "policy-changes", run_ms=2_500),
    Mutant(older_policy_counts, "snapshot", 4, "policy-changes", run_ms=2_500),
    Mutant(policy_of_no_scheme, "policy", 4, "policy-changes", run_ms=2_500),
    Mutant(outputs_not_held, "unannounced", 19, "versions", run_ms=4_000),
    Mutant(any_record_of_code_that_raised_counts, "undecided", 6, "versions", run_ms=2_500),
    Mutant(batch_done_before_its_record_kept, "replay differs", 2, "versions", run_ms=1_500),
    Mutant(rows_skipped_without_a_record, "undecided", 0, "raises", run_ms=4_000),
    Mutant(rows_trimmed_too_far, "rows trim", 2, "spark-rows", run_ms=2_500),
    Mutant(bound_ignored, "bound", 9, "bounded"),
    Mutant(sent_before_forgotten, "bound", 45, "bounded"),
    Mutant(scheme_changed_during_a_switch, "adapted", 9, "adaptive", run_ms=2_500),
    Mutant(no_cool_down, "cool-down", 8, "adaptive", run_ms=1_500),
    Mutant(cool_down_of_ones_own_changes_alone, "cool-down", 1, "adaptive", run_ms=1_500),
    Mutant(estimates_of_a_former_leader, "stale", 1, "adaptive", run_ms=1_500),
    Mutant(controllers_record_beats_a_command, "adapted", 4, "adaptive", run_ms=1_500),
    Mutant(commands_wait_for_the_controller, "ignored", 1, "adaptive", run_ms=1_500),
    Mutant(skipped_records_not_counted, "gap", 3, "gaps"),
    Mutant(one_batch_not_counted, "gap", 3, "gaps"),
    Mutant(continued_before_the_gap_is_valid, "gap", 3, "gaps"),
    Mutant(gap_not_noted, "gap", 4, "gaps", run_ms=1_500),
    Mutant(gap_of_another_copy_not_noted, "gap", 34, "gaps"),
    Mutant(drill_of_whatever_there_is, "drilled", 6, "adaptive", run_ms=1_500),
)

EQUIVALENT: tuple[Bug, ...] = (any_run_applied, records_below_a_snapshot_once_more)
"""For these another rule stands in: their docstring says which, and which bug leaves out both."""
