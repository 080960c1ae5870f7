"""The checkpoint work of one copy: what the policies see of it, and what it does when one of them says so.

Source: PROTOCOL 6 and 7. The scheduler decides when, the checkpointer writes and applies, the trimmer frees what nobody
needs any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Protocol

from schemas.checkpoints import Marker
from schemas.topics import Partition
from services.kernel.plans.layout import UnitLayout
from services.kernel.state.keyed import StateStore
from services.worker.checkpoint.checkpointer import Checkpointer
from services.worker.checkpoint.policies.policy import Kind
from services.worker.checkpoint.restoring import Rebuilt
from services.worker.checkpoint.writer import Moment
from services.worker.core.spent import Spent
from services.worker.host.job import JobView
from services.worker.host.surroundings import Surroundings
from services.worker.unit.trimmer import Trimmer


class Checkpointed(Protocol):
    """What is checkpointed: a unit with an image."""

    @property
    def batch(self) -> int: ...
    @property
    def ended(self) -> bool: ...
    @property
    def suspended(self) -> bool: ...
    @property
    def data_wait(self) -> bool: ...
    @property
    def undecided(self) -> bool:
        """The state holds a batch that is not done."""
        ...

    def moment(self) -> Moment:
        """What a marker says of it as of its batch."""
        ...

    def acked(self, marker: Marker, kind: Kind) -> None:
        """Its own marker was read back as valid."""
        ...

    def marked(self, marker: Marker) -> None:
        """A marker that it has reached is valid, whoever wrote it."""
        ...

    def jumped(self, marker: Marker) -> None:
        """Its state is as of another copy's marker, which is ahead."""
        ...


class Checkpoints:
    """Of one copy. Implements Sight: what each value means stands there.

    marker: the last valid one that the copy has reached.
    """

    def __init__(
        self,
        of: Checkpointed,
        job: JobView,
        layout: UnitLayout,
        rebuilt: Rebuilt,
        store: StateStore,
        around: Surroundings,
        refuse: Callable[[int, object], None],
        now_ms: float,
        spent: Spent,
    ) -> None:
        self._spent, self._clock_ms = spent, around.clock_ms
        self._of, self._store, self._job, self._name = of, store, job, layout.unit.name
        self._scheduler = around.checkpoints
        self._key = job.key(self._name)
        partition = Partition(job.topics.checkpoints, layout.unit.partition)
        self.checkpointer = Checkpointer(
            partition,
            rebuilt.log,
            store,
            0 if rebuilt.marker is None else rebuilt.marker.b,
            around.author,
            around.appender,
            around.clock_ms,
            refuse,
            self._acked,
            self._passed,
            self._jumped,
            self._captured,
            spent,
        )
        self.partition, self.next_offset = partition, rebuilt.next_offset
        self.marker = rebuilt.marker
        spent.marked_ms = None if rebuilt.marker is None else now_ms
        self.sinkmost = not any(task.outputs for task in layout.tasks)
        self.interval_ms = job.checkpoint_interval_ms
        self.swept_ms = self.captured_ms = now_ms
        self._still = True
        self._trimmer = Trimmer(job, layout, partition, around)
        self._scheduler.join(self._key, self)

    def close(self) -> None:
        """The copy is closed, or rebuilt."""
        self._scheduler.leave(self._key)

    @property
    def finished(self) -> bool:
        """The last marker is that of the end."""
        return self.marker is not None and self.marker.ended

    # -- what the policies see ----------------------------------------------------------------------------------------

    @property
    def batches(self) -> int:
        return self._of.batch - (0 if self.marker is None else self.marker.b)

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
    def data_wait(self) -> bool:
        return self._of.data_wait

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
        """When there is a run to begin, or a piece of one to write."""
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
        self.captured_ms = now_ms
        if kind is Kind.SWEEP:
            self.swept_ms = now_ms
            self._trimmer.output_trimmed = False
        self.checkpointer.writer.begin(self._of.moment(), kind)
        self._still = self._still or kind is Kind.SWEEP

    def apply_due_ms(self, now_ms: float) -> float:
        """When there is a piece of another copy's run to apply."""
        applies = self.checkpointer.applies(self._of.batch, suspended=self._of.suspended)
        return now_ms if applies and not self._of.undecided and self._scheduler.applies(self._key, now_ms) else math.inf

    def apply(self, now_ms: float) -> None:
        """Applies pieces of other copies' runs."""
        if self._scheduler.applies(self._key, now_ms) and not self._of.undecided:
            self.checkpointer.apply(self._of.batch, suspended=self._of.suspended)

    def trim_due_ms(self) -> float:
        return self._trimmer.next_deadline(still=self._still)

    def trim(self, now_ms: float) -> None:
        self._trimmer.trim(self.checkpointer.log, self._of.batch, now_ms)

    # -- what comes of it ---------------------------------------------------------------------------------------------

    def _captured(self, keys: Collection[bytes], kind: Kind) -> None:
        self._scheduler.captured(self._key, keys, kind)

    def _acked(self, marker: Marker) -> None:
        self._read(marker)
        self._of.acked(marker, self.checkpointer.writer.kind)

    def _passed(self, marker: Marker) -> None:
        self._read(marker)
        self._of.marked(marker)

    def _jumped(self, marker: Marker) -> None:
        self._read(marker)
        self._of.jumped(marker)

    def _read(self, marker: Marker) -> None:
        self.marker, self._spent.marked_ms = marker, self._clock_ms()
