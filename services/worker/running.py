"""A unit that runs: takes batches that are ready, processes, sends, cuts, checkpoints, trims.

Source: PROTOCOL 3, 4, 6 and 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemas import checkpoints, cuts
from schemas.assignments import Flags
from schemas.checkpoints import CutsSnapshot, Marker, Position
from schemas.cuts import NO_WATERMARK, Cut, Range
from schemas.dead_letters import DeadLetter
from schemas.progress import Progress
from schemas.progress import encode as encode_progress
from schemas.topics import Partition
from services.kernel.cuts import CutLog, beginning, records_cut
from services.kernel.errors import StateCorrupted
from services.kernel.frames import MAX_FRAME_BYTES, FrameCodec
from services.kernel.merging import InputPartition
from services.kernel.planning.layout import RemoteInput, UnitLayout
from services.kernel.state import StateStore
from services.kernel.unit import Fed, Unit, stream_schema
from services.kernel.watermark import while_idle
from services.log.protocol import Chunk
from services.worker.checkpointer import Checkpointer, Moment
from services.worker.core.checkpointing import Since, sweep_due
from services.worker.core.cutting import Sight, due, wait_ms
from services.worker.core.trimming import acknowledged
from services.worker.delivery import Delivery
from services.worker.job import JobView
from services.worker.outbox import Outbox
from services.worker.restoring import Rebuilt
from services.worker.source import SourceFeed
from services.worker.surroundings import Surroundings

MAX_UNACKNOWLEDGED_BATCHES = 64
MAX_INPUT_BYTES = 64 * 1024 * 1024
SLICE_MS = 5.0
PROGRESS_MS = 100
TRIM_MS = 500
ANCHOR_MS = 5_000


class Running:
    """One copy at work, from a restored image on. Raises what ends it: StateCorrupted, Divergence, InvalidRecord."""

    def __init__(
        self,
        job: JobView,
        layout: UnitLayout,
        rebuilt: Rebuilt,
        delivery: Delivery | None,
        flags: Flags,
        epoch: int,
        around: Surroundings,
    ) -> None:
        marker = rebuilt.marker
        self.job, self.layout, self._flags, self._around = job, layout, flags, around
        self._name = layout.unit.name
        self.batch = 0 if marker is None else marker.b
        self.counts = {"records": 0, "late": 0, "dead": 0, "lost": 0} | (marker.counts if marker else {})
        self._store = StateStore(rebuilt.image, () if marker is None else marker.tables)
        self._unit = Unit(layout, self._store, None if marker is None else marker.watermarks)
        self._delivery = delivery
        self._outbox = Outbox(layout, job.number, epoch, around.appender, MAX_FRAME_BYTES)
        self._inputs, self._slots = self._open_inputs(marker)
        self._cuts = CutLog(self._cuts_as_of(marker))
        self._snapshots: dict[int, CutsSnapshot] = {}
        self._feeds = {
            task.name: SourceFeed(
                task, self._cuts.task(task.name), self.batch, job.plan.spec["sources"][task.operator.name]
            )
            for task in layout.tasks
            if task.source is not None
        }
        self._deciding: set[str] = set()
        self._checkpointer = Checkpointer(
            Partition(job.topics.checkpoints, layout.unit.partition),
            rebuilt.log,
            self._store,
            self.batch,
            around.author,
            around.appender,
            around.clock_ms,
            self._acked,
        )
        self._next_checkpoint_offset = rebuilt.next_offset
        self.marker = marker
        now = around.clock_ms()
        self._checkpoint_ms = self._progress_ms = self._trim_ms = self._anchor_ms = now
        self._trimmed: dict[Partition, int] = {}
        self._trimmed_since_checkpoint = False
        self._held: set[Partition] = set()
        self._published: Progress | None = None

    # -- what it reads ------------------------------------------------------------------------------------------------

    def data_positions(self) -> dict[Partition, int]:
        """Frames and the user's records, from where the marker says."""
        positions = {partition: source.position() for partition, source in self._inputs.items()}
        for feed in self._feeds.values():
            assert feed.task.source is not None
            topic = feed.task.source.topic
            positions |= {Partition(topic, index): offset for index, offset in feed.positions().items()}
        return positions

    def control_positions(self) -> dict[Partition, int]:
        """The unit's checkpoints and, with source tasks, the job's cuts."""
        positions = {self._checkpointer.partition: self._next_checkpoint_offset}
        if self._feeds:
            positions[Partition(self.job.topics.cuts, 0)] = self._cuts.upto
        return positions

    def offer(self, chunk: Chunk) -> None:
        """Takes a chunk of any of these partitions."""
        source = self._inputs.get(chunk.partition)
        if source is not None:
            for message in chunk.messages:
                source.offer(message.offset(), message.value() or b"")
        elif chunk.partition == self._checkpointer.partition:
            for message in chunk.messages:
                self._checkpointer.read(message.offset(), checkpoints.decode(message.value() or b""))
        elif chunk.partition.topic == self.job.topics.cuts:
            for message in chunk.messages:
                self._read_cut(message.offset(), message.value() or b"")
        else:
            self._offer_records(chunk)

    # -- the turn -----------------------------------------------------------------------------------------------------

    def step(self, now_ms: float) -> bool:
        """Does what can be done now; True if a batch was processed."""
        worked = self._process(now_ms)
        if self._flags.commit:
            self._cut(now_ms)
            self._checkpoint(now_ms)
            self._trim(now_ms)
        self._hold()
        self._publish(now_ms)
        if self._outbox.error is not None:
            raise StateCorrupted(f"a frame could not be delivered: {self._outbox.error}")
        return worked

    @property
    def finished(self) -> bool:
        """The end is processed and its marker valid."""
        return self.marker is not None and self.marker.ended

    @property
    def awaits_control(self) -> bool:
        """A cut or a marker is on its way back."""
        return bool(self._deciding) or self._checkpointer.deciding

    @property
    def busy(self) -> bool:
        """There is work that needs no input."""
        return self._checkpointer.working or self._ready()

    def wait_ms(self, now_ms: float) -> float:
        """How long until time alone brings work."""
        return min(
            (wait_ms(self._sight(feed, now_ms), self.job.rhythm) for feed in self._feeds.values()), default=100.0
        )

    @property
    def watermark(self) -> int:
        return min(self._unit.watermarks.values(), default=NO_WATERMARK)

    # -- processing ---------------------------------------------------------------------------------------------------

    def _ready(self) -> bool:
        batch = self.batch + 1
        return (
            not self._unit.ended
            and all(feed.ready(batch) for feed in self._feeds.values())
            and all(source.ready(batch) for source in self._inputs.values())
        )

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
        return full or self._outbox.waiting >= MAX_UNACKNOWLEDGED_BATCHES

    def _one_batch(self, batch: int) -> None:
        dead: list[DeadLetter] = []
        sources = self._take_sources(batch, dead)
        produced = self._unit.process(batch, sources, self._take_frames(batch))
        self.batch = batch
        dead += produced.dead
        self.counts["late"] += produced.late
        self.counts["dead"] += len(dead)
        if self._flags.send:
            self._outbox.send(batch, produced.sent)
        if self._delivery is not None and self._flags.commit:
            self._delivery.deliver(batch, produced.sinks, dead)
        self.job.read_progress(self._progress())

    def _take_sources(self, batch: int, dead: list[DeadLetter]) -> dict[str, Fed]:
        sources = {}
        for name, feed in self._feeds.items():
            if feed.ended:
                continue
            sources[name], refused, cut = feed.take(batch)
            dead += refused
            self.counts["records"] += records_cut(cut)
            self.counts["lost"] += sum(r.lost for r in cut.ranges)
        return sources

    def _take_frames(self, batch: int) -> dict[tuple[str, int], Fed]:
        frames: dict[tuple[str, int], Fed] = {}
        for partition, source in self._inputs.items():
            merged = source.take(batch)
            slots, codec = self._slots[partition]
            fed = Fed(codec.decode(merged.payloads), merged.watermark)
            frames |= {slot: fed for slot in slots}
        return frames

    # -- cuts ---------------------------------------------------------------------------------------------------------

    def _read_cut(self, offset: int, value: bytes) -> None:
        record = cuts.decode(value)
        feed = self._feeds.get(record.task) if isinstance(record, Cut) else None
        if feed is not None and isinstance(record, Cut) and record.batch > self.batch:
            self._snapshots.setdefault(record.batch - 1, self._cuts.snapshot())
        valid = self._cuts.read(offset, record)
        if feed is None or not isinstance(record, Cut):
            return
        if valid:
            feed.read_cut(record, self._around.clock_ms())
        if self._around.author.wrote(record.id) or valid:
            self._deciding.discard(record.task)

    def _sight(self, feed: SourceFeed, now_ms: float) -> Sight:
        state = self._cuts.task(feed.task.name)
        ends = self._ends(feed)
        return Sight(
            batch=state.batch,
            newest=self._cuts.newest_batch,
            slowest=self.job.slowest,
            records=feed.records,
            bytes=feed.bytes,
            last_ms=feed.last_cut_ms,
            now_ms=now_ms,
            deciding=feed.task.name in self._deciding,
            paused=self._cuts.paused,
            final=state.final,
            at_end=ends is not None and feed.at_end(ends),
        )

    def _ends(self, feed: SourceFeed) -> dict[int, int] | None:
        return None if self._cuts.ends is None else self._cuts.ends.get(feed.task.name, {})

    def _cut(self, now_ms: float) -> None:
        for name, feed in self._feeds.items():
            if due(self._sight(feed, now_ms), self.job.rhythm) is not None:
                self._propose(name, feed, now_ms)

    def _propose(self, name: str, feed: SourceFeed, now_ms: float) -> None:
        rhythm, before = self.job.rhythm, self._cuts.task(name)
        ranges, final = feed.propose(before.batch + 1, rhythm.max_records, rhythm.max_bytes, self._ends(feed))
        idle = feed.idle(now_ms)
        cut = Cut(
            task=name,
            batch=before.batch + 1,
            ranges=ranges,
            watermark=max(before.watermark, self._watermark(name, feed, ranges, idle, now_ms)),
            id=self._around.author.next(),
            prev=before.last,
            idle=idle,
            final=final,
            time_ms=self._around.time_ms(),
        )
        self._deciding.add(name)
        self._around.appender.append(Partition(self.job.topics.cuts, 0), cuts.encode(cut))

    def _watermark(self, name: str, feed: SourceFeed, ranges: Sequence[Range], idle: bool, now_ms: float) -> int:
        if not idle:
            return feed.watermark(ranges, now_ms)
        others = {task: state for task, state in self._cuts.tasks.items() if task != name}
        return while_idle(self._cuts.task(name), others, int((now_ms - feed.last_cut_ms) * 1000))

    # -- checkpoints, acks, trims -------------------------------------------------------------------------------------

    def _checkpoint(self, now_ms: float) -> None:
        checkpointer = self._checkpointer
        if checkpointer.resting and self._due(now_ms):
            self._checkpoint_ms = now_ms
            self._trimmed_since_checkpoint = False
            checkpointer.begin(self._moment())
        checkpointer.work()
        committed = self.batch if self._delivery is None else self._delivery.committed(self.batch)
        checkpointer.flushed(min(self._outbox.acknowledged(self.batch), committed))

    def _due(self, now_ms: float) -> bool:
        marked = 0 if self.marker is None else self.marker.b
        since = Since(
            batches=self.batch - marked,
            elapsed_ms=now_ms - self._checkpoint_ms,
            trimmed=self._trimmed_since_checkpoint,
            sinkmost=not any(task.outputs for task in self.layout.tasks),
            ended=self._unit.ended,
        )
        return sweep_due(since, self.job.checkpoint_interval_ms)

    def _moment(self) -> Moment:
        snapshot = self._snapshots.get(self.batch) or self._cuts.snapshot()
        self._snapshots = {batch: s for batch, s in self._snapshots.items() if batch > self.batch}
        return Moment(
            batch=self.batch,
            watermarks=dict(self._unit.watermarks),
            positions=[Position(p.topic, p.index, source.position()) for p, source in self._inputs.items()],
            cuts=snapshot if self._feeds else None,
            counts=dict(self.counts),
            ended=self._unit.ended,
        )

    def _acked(self, marker: Marker) -> None:
        self.marker = marker
        for source in self._inputs.values():
            source.forget_hashes(marker.b)
        self._publish_now(self._around.clock_ms())

    def _trim(self, now_ms: float) -> None:
        if now_ms - self._trim_ms >= TRIM_MS:
            self._trim_ms = now_ms
            upto = {
                p: acknowledged(p, self.job.readers.get(p, ()), self.job.progress) for p in self._output_partitions()
            }
            self._trim_to({p: offset for p, offset in upto.items() if offset > self._trimmed.get(p, 0)})
        if now_ms - self._anchor_ms >= ANCHOR_MS:
            self._anchor_ms = now_ms
            self._trim_checkpoints()

    def _trim_checkpoints(self) -> None:
        """First the anchor, and only once it was read back the trim."""
        partition, log = self._checkpointer.partition, self._checkpointer.log
        if log.anchored > self._trimmed.get(partition, 0):
            self._trim_to({partition: log.anchored})
        anchor = log.anchor()
        if anchor is not None:
            self._around.appender.append(partition, checkpoints.encode(anchor))

    def _trim_to(self, upto: dict[Partition, int]) -> None:
        if upto:
            self._trimmed |= upto
            self._trimmed_since_checkpoint = True
            self._around.restores.run(lambda: self._around.log.trim(upto), lambda _: None)

    def _output_partitions(self) -> Iterable[Partition]:
        return {
            Partition(output.topic, target)
            for task in self.layout.tasks
            for output in task.outputs
            for target in output.targets
        }

    # -- flow ---------------------------------------------------------------------------------------------------------

    def _offer_records(self, chunk: Chunk) -> None:
        for feed in self._feeds.values():
            assert feed.task.source is not None
            if feed.task.source.topic == chunk.partition.topic and chunk.partition.index in feed.task.source.partitions:
                feed.offer(chunk, self._around.clock_ms())

    def _hold(self) -> None:
        """Stops fetching what waits for something else; never a partition on which this unit itself waits."""
        limit = 3 * self.job.rhythm.max_records
        for feed in self._feeds.values():
            assert feed.task.source is not None
            for index in feed.task.source.partitions:
                backlog = feed.backlog(index)
                self._hold_one(Partition(feed.task.source.topic, index), backlog > limit, backlog < limit // 2)
        for partition, source in self._inputs.items():
            ready = source.ready(self.batch + 1)
            full = source.bytes > MAX_INPUT_BYTES and ready
            self._hold_one(partition, full, source.bytes < MAX_INPUT_BYTES // 2 or not ready)

    def _hold_one(self, partition: Partition, full: bool, drained: bool) -> None:
        if full and partition not in self._held:
            self._held.add(partition)
            self._around.data.hold(partition, True)
        elif drained and partition in self._held:
            self._held.discard(partition)
            self._around.data.hold(partition, False)

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
            dead=self.counts["dead"],
            lost=self.counts["lost"],
            ended=self.finished,
        )

    def _publish(self, now_ms: float) -> None:
        if now_ms - self._progress_ms >= PROGRESS_MS and (
            self._published is None or self._published.processed < self.batch
        ):
            self._publish_now(now_ms)

    def _publish_now(self, now_ms: float) -> None:
        self._progress_ms = now_ms
        self._published = self._progress()
        self.job.read_progress(self._published)
        if self._flags.commit:
            partition = Partition(self.job.topics.progress, 0)
            self._around.appender.append(partition, encode_progress(self._published), key=self._name.encode())

    # -- opening ------------------------------------------------------------------------------------------------------

    def _open_inputs(
        self, marker: Marker | None
    ) -> tuple[dict[Partition, InputPartition], dict[Partition, tuple[list[tuple[str, int]], FrameCodec]]]:
        known = {} if marker is None else {Partition(p.topic, p.partition): p.offset for p in marker.positions}
        inputs: dict[Partition, InputPartition] = {}
        slots: dict[Partition, tuple[list[tuple[str, int]], FrameCodec]] = {}
        for task in self.layout.tasks:
            for slot, source in enumerate(task.inputs):
                if not isinstance(source, RemoteInput):
                    continue
                partition, offset = source.partition, known.get(source.partition, 0)
                inputs.setdefault(
                    partition, InputPartition(str(partition), source.writers, self.job.number, self.batch, offset)
                )
                codec = FrameCodec(stream_schema(task.input_fields[slot]))
                slots.setdefault(partition, ([], codec))[0].append((task.name, slot))
        return inputs, slots

    def _cuts_as_of(self, marker: Marker | None) -> CutsSnapshot:
        if marker is not None and marker.cuts is not None:
            return marker.cuts
        return beginning(self._first_offsets())

    def _first_offsets(self) -> dict[str, dict[int, int]]:
        """Of every source task of the job: the fold needs them all."""
        return {
            f"{source.operator}-{index}": {partition: source.first[partition] for partition in owned}
            for source in self.job.plan.sources
            for index, owned in enumerate(source.owners)
        }
