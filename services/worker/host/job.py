"""A worker's view of one of its jobs: the plan, its topics and layouts, and the progress of all units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from holdfast.schemas.assignments import CheckpointPolicy, Copy, job_key, unit_key
from holdfast.schemas.plans import Plan
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import ClusterTopics, JobTopics, Partition, generation_number
from holdfast.services.decisions.admitted import Skipped
from holdfast.services.decisions.answers import asking_units
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.buffering import UPSTREAM, buffering, only_sources_retain
from holdfast.services.decisions.gaps import skipping_units
from holdfast.services.decisions.policies import ALIGNED, planned
from holdfast.services.decisions.raises import may_raise
from holdfast.services.kernel.errors import TooManyDeadLetters
from holdfast.services.kernel.plans.layout import UnitLayout, below, directly_above, readers, senders, unit_layouts
from holdfast.services.kernel.plans.priorities import needed
from holdfast.services.kernel.plurals import plural
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.core.counting_units import SELDOM_STILL_MS, STILL_MS, CountingUnits
from holdfast.services.worker.core.cut_rhythm import Rhythm
from holdfast.services.worker.core.pace import Spacing
from holdfast.services.worker.core.retained import Bound
from holdfast.services.worker.core.trim_limit import later
from holdfast.services.worker.host.presence import Presence

if TYPE_CHECKING:  # the library of traces is optional
    from holdfast.services.worker.host.spans import Spans, UnitSpans

TAKEN_BACK_BATCHES = 1_024
"""Distance in batches by which a unit's report may fall behind its own progress. Beyond it, the progress was forged or
the report is from a zombie. The next report, at most 100 ms later, decides; until then the lower progress counts and
only holds the sources back."""

PACED_FROM_MS = 40
"""Latency budget below which the records of a job are read as they come."""

FIRST_RECORDS = 1_000
"""Least number of records for the share of dead letters, so that a few early ones do not end a job."""


@dataclass(slots=True)
class JobView:
    """A generation of a job.

    Attributes:
        progress: newest known progress, by unit.
        assigned: placements of its units.
        skipped: records of its own topics that a person has skipped.
        counting: units whose progress holds its sources back.
        number: number of the generation in its frames.
        rhythm, planned, bound: settings of the plan.
        spans: spans of its batches; None without traces.
        senders: unit by data partition and writer number.
        read: returns the offset up to which `assignments` was read.
        spacing: time between its batches, as the copies here read them.
        rests: newest batch at which it was paused with all its sources, from units that read them; 0 for none.
    """

    plan: Plan
    topics: JobTopics
    layouts: dict[str, UnitLayout]
    readers: dict[Partition, tuple[str, ...]]
    assigned: Assigned
    number: int
    rhythm: Rhythm
    planned: CheckpointPolicy
    job_key: str
    progress: dict[str, Progress] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=dict)
    counting: CountingUnits = field(default_factory=lambda: CountingUnits({}))
    spans: Spans | None = None
    bound: Bound = field(default_factory=lambda: Bound(None))
    senders: dict[Partition, dict[int, str]] = field(default_factory=dict)
    read: Callable[[], int] = lambda: -1
    spacing: Spacing = field(default_factory=Spacing)
    rests: int = 0
    _here: dict[str, tuple[int, int]] = field(default_factory=dict)
    _leaders: dict[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, cluster: ClusterTopics, assigned: Assigned) -> JobView:
        topics = cluster.job(plan.job, plan.generation)
        layouts = unit_layouts(plan, topics)
        return cls(
            plan,
            topics,
            layouts,
            readers(plan, topics),
            assigned=assigned,
            number=generation_number(plan.generation),
            rhythm=_rhythm(plan),
            planned=planned(plan),
            job_key=job_key(plan.job, plan.generation),
            counting=CountingUnits(below(layouts)),
            bound=Bound(plan.settings.retain_bytes),
            senders=senders(layouts),
        )

    def key(self, unit: str) -> str:
        return unit_key(self.plan.job, self.plan.generation, unit)

    def reads(self, partition: Partition) -> bool:
        """True if a source of the job reads the partition."""
        return any(source.topic == partition.topic for source in self.plan.sources)

    @property
    def stretches(self) -> bool:
        """True if the job sets no batch interval, so that its batches may be further apart."""
        return self.plan.settings.batch_interval_ms is None

    @property
    def paced(self) -> bool:
        """True if its batches are far apart, by its latency budget or because they take long."""
        return (self.plan.settings.latency_ms or 0) >= PACED_FROM_MS or self.spacing.seldom

    @property
    def checkpoint(self) -> CheckpointPolicy:
        """The checkpoint policy of its units, as far as `assignments` was read."""
        return self.assigned.policy(self.job_key) or self.planned

    def line(self, unit: str) -> tuple[int, int]:
        """The line of the unit, and the global checkpoint with which that line begins."""
        change = self.assigned.of(self.key(unit))
        return (0, 0) if change is None else (change.line, change.back)

    @property
    def held(self) -> int | None:
        """The newest global checkpoint, whose data are all kept (schemas/checkpoints.py, Marker); None unless the
        policy is `aligned`."""
        return self.assigned.complete(self.job_key) if self.checkpoint.policy == ALIGNED else None

    @property
    def retains_at_sources(self) -> bool:
        """True if by the job file only sources retain, as long as nothing fails."""
        return buffering(self.plan) != UPSTREAM

    @property
    def only_sources_retain(self) -> bool:
        """True if only sources retain at present."""
        return only_sources_retain(self.plan, self.assigned)

    # -- tentative results --------------------------------------------------------------------------------------------

    @property
    def forking(self) -> frozenset[str]:
        """Units that can work on tentative batches: units without sources and without awaited answers, except Spark
        units."""
        reading = {name for name, layout in self.layouts.items() if any(task.source for task in layout.tasks)}
        hosted = {unit.name for unit in self.plan.units if unit.host}
        return frozenset(self.layouts) - reading - hosted - self.asking_units

    @property
    def tentative(self) -> frozenset[str]:
        """Units that queries with tentative results need."""
        of = {one.sink.query for one in self.plan.operators if one.sink.tentative}
        return frozenset().union(*(units for query, units in needed(self.plan).items() if query in of) if of else ())

    def void(self, partition: Partition, writer: int, epoch: int) -> bool:
        """True if the writer's unit has gone back since this epoch, so that it sends earlier batches again."""
        unit = self.senders.get(partition, {}).get(writer)
        return unit is not None and epoch < self.assigned.begun(self.key(unit))

    def knows(self, seen: Mapping[str, int]) -> bool:
        """True if every epoch in `seen`, by unit, comes from a change that was read here."""
        return all(epoch <= self.assigned.epoch(self.key(unit)) for unit, epoch in seen.items())

    def spans_of(self, unit: str) -> UnitSpans | None:
        """The spans of the batches of a copy of the unit; None without traces."""
        if self.spans is None:
            return None
        above = directly_above(self.layouts)[unit]
        return self.spans.of(self.plan.job, self.plan.generation, unit, above)

    def switched(self, unit: str) -> bool:
        """True if the unit's primary is away and may return."""
        change = self.assigned.of(self.key(unit))
        return change is not None and change.switched

    def followed(self, unit: str) -> bool:
        """True if another copy applies the unit's checkpoints."""
        change = self.assigned.of(self.key(unit))
        return change is not None and any(copy.flags.checkpoint_target for copy in change.copies)

    def leader(self, unit: str) -> Copy | None:
        """The copy that leads the unit; None if no copy does."""
        change = self.assigned.of(self.key(unit))
        return None if change is None else change.committer

    def led_elsewhere(self) -> bool:
        """True if a unit's leader has changed since the last call."""
        before, self._leaders = (
            self._leaders,
            {unit: (leader.worker, leader.incarnation) for unit in self.layouts if (leader := self.leader(unit))},
        )
        return any(unit in before and before[unit] != leader for unit, leader in self._leaders.items())

    def backup(self, unit: str) -> Copy | None:
        """The copy that would take over from the leader: one that follows the checkpoints if there is one; None without
        other copies."""
        change = self.assigned.of(self.key(unit))
        others = [] if change is None else [copy for copy in change.copies if not copy.flags.commit]
        return max(others, key=lambda copy: copy.flags.checkpoint_target, default=None)

    def passed_over(self, chunk: Chunk) -> Chunk:
        """The chunk without skipped records."""
        skipped = self.skipped.get(chunk.partition)
        if skipped is None:
            return chunk
        kept = [message for message in chunk.messages if message.offset() not in skipped]
        return Chunk(chunk.partition, kept, chunk.end, chunk.generation)

    def read_progress(self, record: Progress) -> None:
        """Applies the progress of a copy here."""
        known = self.progress.get(record.unit)
        self.progress[record.unit] = record if known is None else later(known, record)
        self.rests = max(self.rests, record.rests)

    def read_published(self, record: Progress) -> None:
        """Applies the published progress of a unit. Raises msgspec.ValidationError if no unit of the job can have
        published it."""
        known = self.progress.get(record.unit)
        if record.unit not in self.layouts and record.unit not in {unit.name for unit in self.plan.units}:
            raise msgspec.ValidationError(f"the job has no unit {record.unit!r}")
        if record.durable > record.processed:
            raise msgspec.ValidationError(f"{record.unit}: batch {record.durable} saved, {record.processed} processed")
        same = known is not None and known.line == record.line
        if same and known is not None and record.processed + TAKEN_BACK_BATCHES < known.processed:
            self.progress[record.unit] = record
        else:
            self.read_progress(record)

    def did(self, unit: str, line: int, batch: int) -> None:
        """Notes that a copy here has processed the batch, before its progress is published."""
        self._here[unit] = line, batch

    def spaces(self, batch: int, now_ms: float) -> None:
        """Notes a cut with records, or a completed batch with rows. Workers that read no cuts learn the distance of
        batches from completed ones."""
        if self.stretches:
            self.spacing.batch(batch, now_ms)

    @property
    def judged(self) -> bool:
        """True if its sources depend on retained bytes or on the share of dead letters as well as on completed
        batches.
        """
        return self.bound.set or self.plan.settings.dead_letter_share < 1

    def processed(self, unit: str) -> int:
        """The newest batch that any copy of the unit is known to have processed, on its latest line."""
        line, batch = self._here.get(unit, (0, 0))
        if unit not in self.progress:  # asked for every unit whenever a cut may be due
            return batch
        known = self.progress[unit]
        if line > known.line or (line == known.line and batch > known.processed):
            return batch
        return known.processed

    def forget_progress(self) -> None:
        """Drops all progress, which is then read again."""
        self.progress.clear()
        self._here.clear()

    def check_dead_letters(self) -> None:
        """Raises TooManyDeadLetters if the share of dead letters among the job's records exceeds the limit of the
        job.
        """
        share = self.plan.settings.dead_letter_share
        if share >= 1:
            return
        dead, records = (sum(getattr(one, what) for one in self.progress.values()) for what in ("dead", "records"))
        if dead > share * max(records, FIRST_RECORDS):
            raise TooManyDeadLetters(
                f"{plural(dead, 'dead letter')} of {plural(records, 'record')}, more than dead_letter_share {share:g} "
                f"allows: `holdfast dead-letters {self.plan.job}` shows them; correct the job or the records, and "
                "submit it again"
            )

    @property
    def cutting_units(self) -> tuple[str, ...]:
        """The units that have source tasks, in the order of the plan."""
        cutting = {name for name, layout in self.layouts.items() if any(task.source for task in layout.tasks)}
        return tuple(unit.name for unit in self.plan.units if unit.name in cutting)

    @property
    def skipping_units(self) -> frozenset[str]:
        """The units that skip batches when a copy takes over: precision `gap`."""
        return skipping_units(self.plan)

    @property
    def raising_units(self) -> frozenset[str]:
        """The units whose code may raise."""
        return may_raise(self.plan)

    @property
    def asking_units(self) -> frozenset[str]:
        """The units whose code awaits answers."""
        return asking_units(self.plan)

    @property
    def reading_units(self) -> tuple[str, ...]:
        """The units that read the cut log, in the order of the plan."""
        reading = {*self.cutting_units, *self.raising_units, *self.asking_units}
        return tuple(unit.name for unit in self.plan.units if unit.name in reading)

    @property
    def most_mb(self) -> int | None:
        """Limit of the state of each unit, in MiB."""
        return self.plan.settings.memory_limit_mb

    def slowest(self, own: str, newest: int, now_ms: float, presence: Presence) -> int:
        """The lowest batch that a unit of the job has processed. Units that have ended or have no place do not count.

        Args:
            own: the calling unit.
            newest: highest batch that any source task has cut.
            now_ms: the present time.
            presence: presence of the units.
        """
        known = self.progress
        self.counting.still_ms = SELDOM_STILL_MS if self.spacing.seldom else STILL_MS
        processed = {unit: self.processed(unit) for unit in self.layouts if unit not in known or not known[unit].ended}
        return self.counting.slowest(own, processed, newest, now_ms, lambda unit: presence.runs(self.key(unit), now_ms))


def _rhythm(plan: Plan) -> Rhythm:
    return Rhythm(
        interval_ms=plan.interval_ms,
        max_records=plan.settings.max_batch_records,
        max_bytes=plan.settings.max_batch_bytes,
    )
