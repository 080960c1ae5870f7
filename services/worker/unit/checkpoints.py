"""The checkpoint work of one copy: what the policies see of it, and what it does when one of them says so.

Source: PROTOCOL 6 and 7. The scheduler decides when, the checkpointer writes and applies, the trimmer frees what nobody
needs any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Protocol

from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.kernel.state.keyed import StateStore
from holdfast.services.worker.checkpoint.checkpointer import Checkpointer
from holdfast.services.worker.checkpoint.policies.policy import Kind
from holdfast.services.worker.checkpoint.policies.sweep import FEW_BATCHES
from holdfast.services.worker.checkpoint.restoring import Rebuilt
from holdfast.services.worker.checkpoint.writer import Moment
from holdfast.services.worker.core.checkpointing import Phase
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.unit.holding import Holding
from holdfast.services.worker.unit.protection import Protection
from holdfast.services.worker.unit.trimmer import Trimmer

HELD_MS = 1.0
"""Longest time for which the end of another unit's capture may go unnoticed by a unit whose batches wait for it."""
AGAIN_MS = 5.0
"""Time after which a policy that lets a run wait is asked again."""


class Checkpointed(Protocol):
    """A unit with an image, which is checkpointed."""

    @property
    def batch(self) -> int: ...
    @property
    def ended(self) -> bool: ...
    @property
    def suspended(self) -> bool: ...
    @property
    def commits(self) -> bool:
        """True if the copy leads the unit, and its outputs are open."""

    @property
    def data_wait(self) -> bool: ...
    @property
    def undecided(self) -> bool:
        """The state holds a batch that is not done."""

    def moment(self) -> Moment:
        """A marker's statements about it as of its batch."""

    def acked(self, marker: Marker, kind: Kind) -> None:
        """Its own marker was read back as valid."""

    def marked(self, marker: Marker) -> None:
        """A marker that it has reached is valid, whoever wrote it."""

    def jumped(self, marker: Marker) -> None:
        """Its state is as of another copy's marker, which is ahead."""


class Checkpoints:
    """Checkpoints of one copy. Implements UnitView, which says what each value means.

    marker: the last valid one that the copy has reached. holding: records kept for global checkpoints.
    """

    def __init__(
        self,
        of: Checkpointed,
        job: JobView,
        layout: UnitLayout,
        rebuilt: Rebuilt,
        store: StateStore,
        around: HostServices,
        refuse: Callable[[int, object], None],
        now_ms: float,
        spent: Spent,
    ) -> None:
        self._spent, self._clock_ms = spent, around.clock_ms
        self._of, self._store, self._job, self._name = of, store, job, layout.unit.name
        self._scheduler = around.checkpoints
        self._key = job.key(self._name)
        partition = Partition(job.topics.checkpoints, layout.unit.partition)
        began = 0 if rebuilt.marker is None else rebuilt.marker.b
        self.checkpointer = Checkpointer(partition, rebuilt.log, store, began, around.author, around.appender,
                                         around.clock_ms, refuse, self._acked, self._passed, self._jumped,
                                         self._captured, spent)  # fmt: skip
        self.partition, self.next_offset = partition, rebuilt.next_offset
        self.marker, self.holding = rebuilt.marker, Holding(job, rebuilt.log, rebuilt.line)
        spent.marked_ms = None if rebuilt.marker is None else now_ms
        self._protection = Protection(job, self._name, spent, around, now_ms)
        self.sinkmost = not any(task.outputs for task in layout.tasks)
        self.swept_ms = self.captured_ms = now_ms
        self.captured_batch, self._swept_batch = -1, of.batch
        self._still = True
        self._trimmer = Trimmer(job, layout, partition, around)
        self._scheduler.join(self._key, self)

    def close(self) -> None:
        """The copy is closed, or rebuilt."""
        self._scheduler.leave(self._key)

    def held(self) -> Marker | None:
        """The marker up to which the inputs may be trimmed."""
        return self.holding.acked(self.marker)

    @property
    def finished(self) -> bool:
        """The last marker is that of the end, and the unit goes back to no earlier one."""
        return self.marker is not None and self.marker.ended and self.holding.over(self.marker)

    # -- what the policies see ----------------------------------------------------------------------------------------

    @property
    def policy(self) -> str:
        return self._job.checkpoint.policy

    @property
    def interval_ms(self) -> int:
        return self._job.checkpoint.interval_ms

    @property
    def min_interval_ms(self) -> int:
        return self._job.checkpoint.min_interval_ms

    @property
    def max_interval_ms(self) -> int:
        return self._job.checkpoint.max_interval_ms

    @property
    def merge_ms(self) -> float:
        return self._job.checkpoint.merge_ms

    @property
    def every_batches(self) -> int:
        return self._job.checkpoint.every_batches

    @property
    def batch(self) -> int:
        return self._of.batch

    @property
    def batches(self) -> int:
        return self._of.batch - (0 if self.marker is None else self.marker.b)

    @property
    def rests(self) -> bool:
        return self._of.batch == self._job.rests

    @property
    def sparse(self) -> bool:
        few = self._job.spacing.seldom and self._of.batch - self._swept_batch < FEW_BATCHES
        return few and not self._job.bound.set

    @property
    def still(self) -> bool:
        return self._still and self.marker is not None

    @property
    def changed(self) -> int:
        return self._store.changed

    @property
    def output_trimmed(self) -> bool:
        return self._trimmer.output_trimmed

    @property
    def ended(self) -> bool:
        return self._of.ended

    @property
    def followed(self) -> bool:
        return self._job.followed(self._name)

    @property
    def leads(self) -> bool:
        return self._of.commits

    @property
    def resting(self) -> bool:
        return self.checkpointer.resting and not self._of.undecided

    @property
    def capturing(self) -> bool:
        return self.checkpointer.writer.phase is Phase.ENCODING

    @property
    def confirmed(self) -> bool:
        return self.marker is None or self._protection.confirmed(self.marker.b)

    @property
    def primary(self) -> str:
        return self._protection.primary

    @property
    def backup(self) -> str:
        return self._protection.backup

    @property
    def load(self) -> float:
        return self._protection.load if self.leads else self._protection.led_load

    @property
    def replay_ms(self) -> float:
        return self._protection.replay_ms if self.leads else self._protection.led_replay_ms

    @property
    def gain_ms(self) -> float:
        return self._protection.gain_ms

    @property
    def paste_ms(self) -> float:
        return self._protection.paste_ms(self.capture_ms) if self.leads else self.apply_ms

    @property
    def capture_ms(self) -> float:
        return self.checkpointer.writer.capture_ms

    @property
    def apply_ms(self) -> float:
        return self.checkpointer.applier.apply_ms

    @property
    def processed_ms(self) -> float:
        return self._spent.process_ms

    @property
    def waiting(self) -> int:
        return self.checkpointer.applier.waiting

    @property
    def waiting_since_ms(self) -> float:
        applies = self.checkpointer.applies(self._of.batch, suspended=self._of.suspended)
        return self.checkpointer.applier.since_ms if applies else math.inf

    @property
    def data_wait(self) -> bool:
        return self._of.data_wait

    @property
    def recovery_ms(self) -> float:
        """This copy's part of R_u: schemas/costs.py."""
        if self.leads:
            return self._protection.replay_ms
        mean_ms = self._spent.apply_ms / self._spent.applies if self._spent.applies else 0.0
        return self.waiting * mean_ms if self._of.suspended else 0.0

    # -- what it does -------------------------------------------------------------------------------------------------

    def read(self, offset: int, value: bytes) -> None:
        """Takes a record of the unit's checkpoint log."""
        self.checkpointer.read(offset, value)

    def batch_done(self, still: bool) -> None:
        """still: the batch brought no rows and changed nothing."""
        self._still = self._still and still

    def placed(self, now_ms: float) -> None:
        """`commit` has come or gone. A copy that takes over has batches to catch up with, and the last marker."""
        self.swept_ms = self.captured_ms = now_ms

    def due_ms(self, now_ms: float, commits: bool) -> float:
        """The time at which a run is to begin, or a piece of one to be written."""
        if self.checkpointer.writer.working:
            return now_ms
        if not commits or not self.checkpointer.resting or self._of.undecided:
            return math.inf
        return now_ms + self._scheduler.wait_ms(self._key, now_ms)

    def begin(self, now_ms: float) -> None:
        """Begins a run if a policy says so and none is under way."""
        if not self.checkpointer.resting or self._of.undecided:
            return
        kind = self._scheduler.capture(self._key, now_ms)
        if kind is None:
            return
        self.captured_ms, self.captured_batch = now_ms, self._of.batch
        self._protection.captured()
        if kind is Kind.SWEEP:
            self.swept_ms, self._swept_batch = now_ms, self._of.batch
            self._trimmer.output_trimmed = False
        self.checkpointer.writer.begin(self._of.moment(), kind)
        self._still = self._still or kind is Kind.SWEEP

    def next_batch_ms(self, now_ms: float) -> float:
        """The time of the next batch: a policy may hold it back for a capture, if there can be one."""
        captures = self._of.commits and not self._of.undecided
        return now_ms + HELD_MS if captures and self._scheduler.holds(self._key, now_ms) else now_ms

    def apply_due_ms(self, now_ms: float) -> float:
        """The time at which a piece of another copy's run is to be applied."""
        if not self.checkpointer.applier.waiting or self._of.undecided:
            return math.inf
        if not self.checkpointer.applies(self._of.batch, suspended=self._of.suspended):
            return math.inf
        return now_ms if self._scheduler.applies(self._key, now_ms) else now_ms + AGAIN_MS

    def apply(self, now_ms: float) -> None:
        """Applies pieces of other copies' runs."""
        self.checkpointer.applier.look(now_ms)
        if self.waiting and self._scheduler.applies(self._key, now_ms) and not self._of.undecided:
            self.checkpointer.apply(self._of.batch, suspended=self._of.suspended)

    def trim_due_ms(self) -> float:
        return self._trimmer.next_deadline(still=self._still)

    def trim(self, now_ms: float) -> None:
        self._trimmer.trim(self.checkpointer.log, self._of.batch, now_ms)

    # -- what comes of it ---------------------------------------------------------------------------------------------

    def _captured(self, keys: Collection[bytes], kind: Kind) -> None:
        self._scheduler.captured(self._key, keys, kind)

    def _acked(self, marker: Marker) -> None:
        self._protection.saved()
        self._read(marker)
        self._of.acked(marker, self.checkpointer.writer.kind)

    def _passed(self, marker: Marker) -> None:
        if marker.gap is not None:
            raise StateCorrupted(
                f"the unit has skipped batches {marker.gap.after + 1} to {marker.b}, which it has done"
            )
        self._protection.passed()
        self._read(marker)
        self._of.marked(marker)

    def _jumped(self, marker: Marker) -> None:
        self._protection.passed()
        self._read(marker)
        self._of.jumped(marker)

    def _read(self, marker: Marker) -> None:
        self.marker, self._spent.marked_ms = marker, self._clock_ms()
