"""A unit with an image: takes batches that are ready, processes them, sends, and asks for cuts, checkpoints and trims;
or sleeps, holds its inputs, and follows the checkpoints of the copy that works. Its flags say which.

Source: PROTOCOL 3, 4, 6, 7 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial

from schemas.assignments import Flags
from schemas.checkpoints import Marker
from schemas.cuts import END_WATERMARK, NO_WATERMARK
from schemas.dead_letters import DeadLetter
from schemas.progress import Progress
from schemas.topics import Partition
from services.kernel.codecs.frames import MAX_FRAME_BYTES
from services.kernel.dataflow.unit import Fed, Unit
from services.kernel.errors import StateCorrupted
from services.kernel.planning.layout import UnitLayout
from services.kernel.state.keyed import StateStore
from services.log.protocol import Chunk
from services.worker.checkpoint.checkpointer import Checkpointer, Moment
from services.worker.checkpoint.restoring import Rebuilt
from services.worker.checkpoint.trimmer import Trimmer
from services.worker.core.checkpointing import Since, sweep_due, sweep_wait_ms
from services.worker.host.job import JobView
from services.worker.host.surroundings import Surroundings
from services.worker.sinks.delivery import Batch, Delivery
from services.worker.sources.cutter import Cutter
from services.worker.sources.feed import Feed
from services.worker.sources.missing import Missing
from services.worker.unit.inputs import Inputs
from services.worker.unit.kept import Kept
from services.worker.unit.outbox import Outbox
from services.worker.unit.steps import Steps
from services.worker.unit.telling import Telling

MAX_UNACKNOWLEDGED_BATCHES = 64
MAX_INPUT_BYTES = 64 * 1024 * 1024
ASLEEP_INPUT_BYTES = 1024 * 1024
SLICE_MS = 5.0
DROPPED = "dropped/"
"""Begins the names of counts of rows dropped as late; a source's name follows."""


class Running:
    """One copy from a restored image on. Raises what ends it: StateCorrupted, Divergence, InvalidRecord."""

    def __init__(
        self,
        job: JobView,
        layout: UnitLayout,
        rebuilt: Rebuilt,
        flags: Flags,
        epoch: int,
        around: Surroundings,
        gaps: Mapping[str, int],
    ) -> None:
        marker = rebuilt.marker
        self.job, self.layout, self._flags, self._around = job, layout, flags, around
        self._name = layout.unit.name
        self.batch = 0 if marker is None else marker.b
        self.counts = {"records": 0, "late": 0, "dead": 0, "lost": 0} | (marker.counts if marker else {})
        self._store = StateStore(rebuilt.image, () if marker is None else marker.tables)
        self._watermarks = {task.name: NO_WATERMARK for task in layout.tasks} | (marker.watermarks if marker else {})
        self._unit: Unit | None = None
        self._delivery: Delivery | None = None
        self._outbox = Outbox(layout, job.number, epoch, around.appender, MAX_FRAME_BYTES)
        self._kept = Kept()
        self._inputs = Inputs(layout, job.number, marker, self._refuse, gaps)
        self._cutter = Cutter(job, layout, marker, around, rebuilt.cuts_end)
        self._feeds = self._cutter.feeds
        self._fed = _by_partition(self._feeds.values())
        self._feeding = _lives(self._fed)
        self._stale: set[Partition] = set()
        self._doubted: dict[Partition, tuple[str, int]] = {}
        checkpoints_of_unit = Partition(job.topics.checkpoints, layout.unit.partition)
        self._checkpointer = Checkpointer(
            checkpoints_of_unit,
            rebuilt.log,
            self._store,
            self.batch,
            around.author,
            around.appender,
            around.clock_ms,
            partial(self._refuse, checkpoints_of_unit),
            self._acked,
            self._marked,
            self._jumped,
        )
        self._next_checkpoint_offset = rebuilt.next_offset
        self.marker = marker
        now = around.clock_ms()
        self._sweep_ms = self._capture_ms = now
        self._telling = Telling(Partition(job.topics.progress, 0), around.appender, now)
        self._missing = Missing(around.log, around.restores, job.plan.job)
        self._trimmer = Trimmer(job, layout, checkpoints_of_unit, around)
        self._held: set[Partition] = set()
        self._still = True
        self._steps = Steps(around.clock_ms, around.cpu_ms)
        self._stirred = True
        self._described = 0
        self._answered: tuple[int, int] | None = None
        self._deadline_ms = -math.inf

    # -- what it reads ------------------------------------------------------------------------------------------------

    def data_positions(self) -> dict[Partition, int]:
        """Frames and the user's records, from where the marker says.

        Two sources of one topic may stand apart: their partition is read from the lower one; each drops what it has.
        """
        positions = self._inputs.offsets()
        for partition, feeds in self._fed.items():
            positions[partition] = min(feed.positions()[partition.index] for feed in feeds)
        return positions

    def rewired(self) -> tuple[set[Partition], dict[Partition, int]]:
        """The users' partitions that are no longer to be read, and those that are, from where, since the last call."""
        if not self._cutter.rewired:
            return set(), {}
        self._cutter.rewired = False
        self._stale.clear()
        positions, before, self._feeding = self.data_positions(), self._feeding, _lives(self._fed)
        changed = {partition for partition, lives in self._feeding.items() if before.get(partition) != lives}
        left = before.keys() - (self._feeding.keys() - changed)
        self._held -= left
        for partition in left:
            self._doubted.pop(partition, None)
        return left, {partition: positions[partition] for partition in changed}

    def doubts(self, partition: Partition, cause: str) -> bool:
        """A position of a user's topic is gone: whether it is to be seen first that the topic is the same."""
        if partition not in self._fed or self._cutter.is_read(partition.topic, ""):
            return False
        self._doubted[partition] = (cause, self._around.topics.asked + 1)
        self._around.topics.of(partition.topic, self._around.clock_ms())
        self._around.topics.look()
        return True

    def _settle_doubts(self, now_ms: float) -> None:
        """Raises StateCorrupted once the topic is known to be the same: then its records are gone."""
        for partition, (cause, request) in list(self._doubted.items()):
            topic = self._around.topics.of(partition.topic, now_ms)
            known = self._around.topics.answered >= request and self._cutter.caught_up
            if partition not in self._fed:
                del self._doubted[partition]
            elif known and topic is not None and self._cutter.is_read(partition.topic, topic.id):
                raise StateCorrupted(cause)

    def control_positions(self) -> dict[Partition, int]:
        """The unit's checkpoints and, with source tasks, the job's cuts."""
        return {self._checkpointer.partition: self._next_checkpoint_offset} | self._cutter.positions()

    def offer(self, chunk: Chunk) -> None:
        """Takes a chunk of any of these partitions."""
        if chunk.partition in self._inputs:
            # What comes before the last writer's frame changes nothing.
            self._stirred |= self._inputs.offer(chunk, self.batch + 1)
            return
        self._stirred = True
        if chunk.partition == self._checkpointer.partition:
            with self._steps.step():
                for message in chunk.messages:
                    self._checkpointer.read(message.offset(), message.value() or b"")
        elif self._cutter.reads(chunk.partition):
            for message in chunk.messages:
                self._cutter.read(message.offset(), message.value() or b"", self.batch)
            if self._cutter.rewired:
                self._fed = _by_partition(self._feeds.values())
                now = _lives(self._fed)
                self._stale = {one for one, lives in self._feeding.items() if now.get(one) != lives}
        else:
            self._offer_records(chunk)

    def _refuse(self, partition: Partition, offset: int, cause: object) -> None:
        """A record of the job's own topics that is none."""
        self._around.refusals.refuse(partition, offset, cause, self.job.plan.job)

    # -- flags --------------------------------------------------------------------------------------------------------

    def place(self, epoch: int, flags: Flags) -> None:
        """Does from now on what these flags say."""
        self._stirred = True
        before, self._flags = self._flags, flags
        self._outbox.epoch = epoch
        if before.commit and not flags.commit:
            self._checkpointer.abandon()
            self.keep_rows()
        if before.commit != flags.commit:
            self._cutter.release()
            # Whoever has just taken over has batches to catch up with, and the marker it came from.
            self._sweep_ms = self._capture_ms = self._around.clock_ms()
        if flags.process and not before.process:
            self._checkpointer.awaken(self.batch)
        if flags.send and not before.send:
            self._send_kept()

    def keep_rows(self) -> None:
        """The outputs are gone: rows that are not known to be committed wait until they are open again."""
        if self._delivery is not None:
            self._kept.rows.extendleft(reversed(self._delivery.leftovers()))
            self._delivery = None

    def deliver_by(self, delivery: Delivery) -> None:
        """Delivers what was kept, at once, then all that follows; what is delivered already goes nowhere.

        Raises StateCorrupted if the position lies before one that a valid marker names: its log has lost its tail, and
        rows would be delivered again.
        """
        known = 0 if self.marker is None else self.marker.position
        if delivery.delivered < known:
            raise StateCorrupted(f"batch {known} was delivered, but its position says {delivery.delivered}")
        self._stirred = True
        self._delivery = delivery
        delivery.deliver(*self._kept.rows)
        self._kept.rows.clear()

    @property
    def _commits(self) -> bool:
        return self._flags.commit and (self._delivery is not None or not self.layout.unit.delivers)

    def _send_kept(self) -> None:
        while self._kept.sent:
            self._outbox.send(*self._kept.sent.popleft())

    # -- the turn -----------------------------------------------------------------------------------------------------

    def step(self, now_ms: float) -> bool:
        """Does what can be done now; True if a batch was processed."""
        self._stirred = False
        if self._doubted:
            self._settle_doubts(now_ms)
        if self._delivery is not None:
            self._delivery.look_again(now_ms)
        worked = self._process(now_ms)
        if self._feeds and self._flags.process:
            self._missing.look(self.batch + 1, self._lacking, now_ms)
        if self._flags.commit:
            self._cutter.propose(now_ms)  # also while the outputs are being opened: the cut log decides, not they
        if self._commits:
            with self._steps.step():
                self._checkpoint(now_ms)
            self._trimmer.trim(self._checkpointer.log, self.batch, now_ms)
        else:
            self._checkpointer.work()  # what was valid when `commit` went has still to be settled
        self._checkpointer.paste(self.batch, asleep=self.asleep)
        self._hold()
        if self._commits and now_ms >= self._telling.due_ms(self.batch):
            self._tell(now_ms)
        if self._outbox.error is not None:
            raise StateCorrupted(f"a frame could not be delivered: {self._outbox.error}")
        self._answered = self._answers if self._checkpointer.flushing or self._backlogged() else None
        self._deadline_ms = self._when_due(now_ms)
        return worked

    def due(self, now_ms: float) -> bool:
        """Whether a turn would find anything to do."""
        if (self._flags.commit or self._doubted) and self._described != self._around.topics.answered:
            self._described, self._stirred = self._around.topics.answered, True
        if self._stirred or now_ms >= self._deadline_ms or self._outbox.error is not None:
            return True
        return self._answered is not None and self._answered != self._answers

    @property
    def next_deadline(self) -> float:
        """When a turn is due unless something comes or is answered before, in milliseconds of the clock."""
        return -math.inf if self._stirred else self._deadline_ms

    @property
    def missing(self) -> str:
        """Frames that Kafka has lost, and whose writers have yet to send them again; empty if there are none."""
        return self._inputs.missing

    @property
    def finished(self) -> bool:
        """The end is processed and its marker valid."""
        return self.marker is not None and self.marker.ended

    @property
    def asleep(self) -> bool:
        """It processes nothing, and waits to be told to."""
        return not self._flags.process

    @property
    def stopped(self) -> str:
        """Why the job goes on only when a person says so; or empty."""
        return self._cutter.stopped

    @property
    def waits(self) -> str:
        """What it waits for that is not there; or empty."""
        missing = ("" if self._delivery is None else self._delivery.waits, self._cutter.waits)
        return "; ".join(filter(None, missing)) if self._flags.commit else ""

    @property
    def awaits_control(self) -> bool:
        """A cut, our own or another copy's, or a marker is on its way."""
        follows = self._flags.process and not self._flags.commit and any(f.records for f in self._feeds.values())
        return follows or self._cutter.deciding or self._checkpointer.deciding

    @property
    def out(self) -> int:
        """What has left it so far: transactions committed, or else batches whose frames are acknowledged."""
        if self.layout.unit.delivers:
            return 0 if self._delivery is None else self._delivery.transactions
        return self._outbox.done

    @property
    def busy(self) -> bool:
        """There is work that needs no input."""
        return self._checkpointer.working or (self._flags.process and self._ready() and not self._backlogged())

    @property
    def watermarks(self) -> dict[str, int]:
        """Of each task's inputs, after the last batch done."""
        return self._watermarks if self._unit is None else self._unit.watermarks

    @property
    def watermark(self) -> int:
        return min(self.watermarks.values(), default=NO_WATERMARK)

    @property
    def _ended(self) -> bool:
        return all(watermark == END_WATERMARK for watermark in self.watermarks.values())

    # -- when it is due -----------------------------------------------------------------------------------------------

    @property
    def _answers(self) -> tuple[int, int]:
        """Grows whenever something that left it is acknowledged or committed."""
        return self._outbox.done, 0 if self._delivery is None else self._delivery.transactions

    def _when_due(self, now_ms: float) -> float:
        if self.busy or self._checkpointer.pastes(self.batch, asleep=self.asleep):
            return now_ms
        due_ms = self._telling.due_ms(self.batch) if self._commits else math.inf
        if self._feeds and self._flags.process:
            due_ms = min(due_ms, self._missing.next_deadline)
        if self._flags.commit:
            due_ms = min(due_ms, now_ms + self._cutter.wait_ms(now_ms))
        if not self._commits:
            return due_ms
        if self._delivery is not None:
            due_ms = min(due_ms, self._delivery.again_ms)
        capture_ms = math.inf
        if self._checkpointer.resting:
            sweep_wait = sweep_wait_ms(self._since(now_ms), self.job.checkpoint_interval_ms)
            capture_ms = now_ms + min(sweep_wait, self._refresh_wait_ms(now_ms))
        return min(due_ms, capture_ms, self._trimmer.next_deadline(still=self._still))

    # -- processing ---------------------------------------------------------------------------------------------------

    def _ready(self) -> bool:
        batch = self.batch + 1
        if self._ended or not self._cutter.caught_up:
            return False
        return all(feed.ready(batch) for feed in self._feeds.values()) and self._inputs.ready(batch)

    def _lacking(self) -> dict[Partition, int]:
        """Up to where the next batch is cut and its records are not here."""
        found = (feed.missing(self.batch + 1).items() for feed in self._feeds.values())
        return {partition: stop for items in found for partition, stop in items}

    def _process(self, now_ms: float) -> bool:
        worked = False
        while self._flags.process and self._ready() and not self._backlogged():
            self._one_batch(self.batch + 1)
            worked = True
            if self._around.clock_ms() - now_ms > SLICE_MS:
                break
        return worked

    def _backlogged(self) -> bool:
        full = self._delivery is not None and self._delivery.full
        return full or self._kept.full or self._outbox.waiting >= MAX_UNACKNOWLEDGED_BATCHES

    def _one_batch(self, batch: int) -> None:
        if self._unit is None:
            self._unit = Unit(self.layout, self._store, self._watermarks)
        dead: list[DeadLetter] = []
        sources = self._take_sources(batch, dead)
        frames = self._inputs.take(batch)
        produced = self._unit.process(batch, sources, frames)
        self.batch = batch
        dead += produced.dead
        rows = any(fed.rows.height for brought in (sources, frames) for fed in brought.values())
        self._still = self._still and not (rows or dead or self._store.changed)
        self.counts["late"] += produced.late
        self.counts["dead"] += len(dead)
        for source, count in produced.dropped.items():
            if count:
                self.counts[DROPPED + source] = self.counts.get(DROPPED + source, 0) + count
        if self._flags.send:
            self._outbox.send(batch, produced.sent)
        else:
            self._kept.sent.append((batch, produced.sent))
        made = Batch(batch, produced.sinks, dead)
        if self._delivery is not None:
            self._delivery.deliver(made)
        elif self.layout.unit.delivers:
            self._kept.rows.append(made)
        self.job.read_progress(self._progress())

    def _take_sources(self, batch: int, dead: list[DeadLetter]) -> dict[str, Fed]:
        sources = {}
        for name, feed in self._feeds.items():
            if feed.ended:
                continue
            before = feed.taken
            sources[name], refused, cut = feed.take(batch)
            dead += refused
            self.counts["records"] += feed.taken - before  # a cut spans more: markers of transactions hold offsets too
            self.counts["lost"] += sum(r.lost for r in cut.ranges)
        return sources

    # -- checkpoints and acks -----------------------------------------------------------------------------------------

    def _checkpoint(self, now_ms: float) -> None:
        checkpointer = self._checkpointer
        if checkpointer.resting:
            if sweep_due(self._since(now_ms), self.job.checkpoint_interval_ms):
                self._sweep_ms = self._capture_ms = now_ms
                self._trimmer.output_trimmed = False
                checkpointer.begin(self._moment(), sweep=True)
                self._still = True
            elif self._refresh_wait_ms(now_ms) == 0.0:
                self._capture_ms = now_ms
                checkpointer.begin(self._moment(), sweep=False)
        checkpointer.work()
        committed = self.batch if self._delivery is None else self._delivery.committed(self.batch)
        checkpointer.flushed(min(self._outbox.acknowledged(self.batch), committed))

    @property
    def _unmarked(self) -> int:
        """Batches since the marker."""
        return self.batch - (0 if self.marker is None else self.marker.b)

    def _refresh_wait_ms(self, now_ms: float) -> float:
        checkpointer = self._checkpointer
        wait_ms = checkpointer.refreshing.wait_ms(self._unmarked, now_ms - self._capture_ms, checkpointer.changed)
        return wait_ms if wait_ms < math.inf and self.job.has_sleeper(self._name) else math.inf

    def _since(self, now_ms: float) -> Since:
        return Since(
            batches=self._unmarked,
            elapsed_ms=now_ms - self._sweep_ms,
            trimmed=self._trimmer.output_trimmed,
            sinkmost=not any(task.outputs for task in self.layout.tasks),
            ended=self._ended,
            still=self._still and self.marker is not None,
        )

    def _moment(self) -> Moment:
        return Moment(
            batch=self.batch,
            watermarks=dict(self.watermarks),
            positions=self._inputs.positions(),
            cuts=self._cutter.as_of(self.batch),
            counts=dict(self.counts),
            ended=self._ended,
            position=0 if self._delivery is None else self._delivery.delivered,
        )

    def _acked(self, marker: Marker) -> None:
        """Our own marker was read back as valid. A refresh is acknowledged when it suits: nobody waits for it."""
        self._marked(marker)
        if self._checkpointer.sweeps and self._commits:
            self._tell(self._around.clock_ms())

    def _marked(self, marker: Marker) -> None:
        """What lies at or below the marker can be read from the checkpoint log: it needs no keeping."""
        self.marker = marker
        self._kept.forget(marker.b)
        self._inputs.forget_hashes(marker.b)

    def _jumped(self, marker: Marker) -> None:
        """The state is as of another copy's marker, which is ahead: go on from there."""
        self.batch = marker.b
        self.counts |= marker.counts
        self._unit, self._watermarks = None, self._watermarks | marker.watermarks
        self._inputs.skip(marker)
        self._cutter.skip(marker.b)
        self._marked(marker)

    # -- flow ---------------------------------------------------------------------------------------------------------

    def _offer_records(self, chunk: Chunk) -> None:
        """What was read of a topic that was replaced, or from where nobody reads on, is no record."""
        if chunk.partition in self._stale:
            return
        for feed in self._fed.get(chunk.partition, ()):
            feed.offer(chunk, self._around.clock_ms())

    def _hold(self) -> None:
        """Stops fetching what waits for something else; never a partition on which this unit itself waits."""
        limit = 3 * self.job.rhythm.max_records
        for partition, feeds in self._fed.items():
            for feed in feeds:
                backlog = feed.backlog(partition.index)
                self._hold_one(partition, backlog > limit, backlog < limit // 2)
        for partition, kept in self._inputs.kept_bytes():
            waited_for = self._inputs.waits_for(partition, self.batch + 1)
            full = kept > MAX_INPUT_BYTES and not waited_for
            self._hold_one(partition, full, kept < MAX_INPUT_BYTES // 2 or waited_for)

    def overfed(self) -> set[Partition]:
        """What a copy that sleeps beside a busy input need not be offered any more.

        Nearly all of it would be dropped again with the next checkpoint. Measured: a source's records took 1.7 us each.
        """
        if not self.asleep:
            return set()
        most = self.job.rhythm.max_records
        busy = {one for one, feeds in self._fed.items() if any(feed.backlog(one.index) > most for feed in feeds)}
        return busy | {one for one, kept in self._inputs.kept_bytes() if kept > ASLEEP_INPUT_BYTES}

    def _hold_one(self, partition: Partition, full: bool, drained: bool) -> None:
        if full and partition not in self._held:
            self._held.add(partition)
            self._around.data.hold(self, partition, True)
        elif drained and partition in self._held:
            self._held.discard(partition)
            self._around.data.hold(self, partition, False)

    def let_go(self) -> None:
        """Of its inputs: others may read the same, and would wait for it."""
        for partition in self._held:
            self._around.data.hold(self, partition, False)
        self._held.clear()

    def _progress(self) -> Progress:
        marker = self.marker
        return Progress(
            unit=self._name,
            processed=self.batch,
            acked=0 if marker is None else marker.b,
            positions=() if marker is None else tuple(marker.positions),
            watermark=self.watermark,
            records=self.counts["records"],
            late=self.counts["late"],
            dead=self.counts["dead"] + (0 if self._delivery is None else self._delivery.aside),
            lost=self.counts["lost"],
            step_ms=round(self._steps.longest_ms, 3),
            step_cpu_ms=round(self._steps.longest_cpu_ms, 3),
            ended=self.finished,
            late_dropped=self.late_dropped,
        )

    @property
    def late_dropped(self) -> dict[str, int]:
        """Rows that were dropped as late up to its batch, by source."""
        return {name.removeprefix(DROPPED): n for name, n in self.counts.items() if name.startswith(DROPPED)}

    def _tell(self, now_ms: float) -> None:
        """Whoever does not commit has nothing to tell; once he does, he tells of all that he has done."""
        self._telling.tell(self._progress(), now_ms)
        self._steps.restart()

    def forget(self) -> None:
        """Lets go of its state: what is left of a closed copy refers to itself, and is not collected."""
        self._store.release()

    def tell_end(self) -> None:
        """That the unit has ended, with `commit` or without: whoever wrote the last marker may have lost it, or died,
        before he read it back, and the one in charge now has nothing left to do.
        """
        self._telling.append(self._progress())


def _by_partition(feeds: Iterable[Feed]) -> dict[Partition, list[Feed]]:
    """Whom each partition of the users' topics feeds: two sources of a unit may read the same topic."""
    fed: dict[Partition, list[Feed]] = {}
    for feed in feeds:
        assert feed.task.source is not None
        for index in feed.positions():
            fed.setdefault(Partition(feed.task.source.topic, index), []).append(feed)
    return fed


def _lives(fed: Mapping[Partition, list[Feed]]) -> dict[Partition, tuple[int, ...]]:
    """How often each feed of a partition has begun anew: one that has is to be given it from where it is now."""
    return {partition: tuple(feed.lives for feed in feeds) for partition, feeds in fed.items()}
