"""The feed of a copy's source task: cuts that wait to be done, and the records in them.

Source: PROTOCOL 3 and 12.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from holdfast.schemas.cuts import Cut, Range, TaskCuts
from holdfast.schemas.leaps import Leap
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.dataflow.cut_records import Brought
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.core.idle_partitions import IdlePartitions, Standing


class Feed(ABC):
    """Feeds one source task, from a user's topic or from Spark's output. Implements Source of kernel/dataflow/walk.py.

    Args:
        task: the task with its source share.
        state: the task's last cut as of the marker.
        batch: last batch done.

    Attributes:
        ended: True if the last cut done was final.
        lives: counter that grows when the feed is to be read from other positions.
        idling: detection of idle partitions; None if the feed's input determines the watermark.
        continues: True if records that are gone before their cut count as lost; otherwise they end the job.
    """

    idling: IdlePartitions | None = None
    continues = True

    def __init__(self, task: TaskLayout, state: TaskCuts, batch: int) -> None:
        self.task = task
        self.batch = batch
        self.ended = state.final
        self.lives = 0
        self.last_cut_ms = 0.0
        self._cuts: dict[int, Cut] = {}

    # -- records ------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def records(self) -> int:
        """The number of records without a cut."""

    @property
    def oldest_ms(self) -> int | None:
        """The stamp of the first record without a cut; None if there is no such record or stamp."""
        return None

    @property
    @abstractmethod
    def bytes(self) -> int:
        """The approximate size of the records that are here."""

    @abstractmethod
    def positions(self) -> dict[int, int]:
        """The offset of each partition from which it must be read."""

    @abstractmethod
    def offer(self, chunk: Chunk, now_ms: float) -> None:
        """Adds records of one of the task's partitions."""

    @abstractmethod
    def backlog(self, partition: int) -> int:
        """The number of waiting records of the partition."""

    @property
    def leap(self) -> Leap | None:
        """The record that moved the watermark furthest since the feed began; None if no record stands out."""
        return None

    # -- cuts that are to be made -------------------------------------------------------------------------------------

    @abstractmethod
    def propose(
        self, batch: int, max_records: int, max_bytes: int, ends: Mapping[int, int] | None
    ) -> tuple[tuple[Range, ...], bool]:
        """The ranges of the next cut, and True if it is the last one."""

    def unknown(self, batch: int) -> tuple[int, ...]:
        """Ids of schemas of the proposed batch that the registry does not know."""
        return ()

    @property
    def keeps_out(self) -> bool:
        """True if records are held back until their schemas are known, and are then read again."""
        return False

    @property
    def waits(self) -> str:
        """The reason why records are held back; empty if none are."""
        return ""

    def rewired(self) -> None:  # noqa: B027 - only a feed that keeps records out has something to do
        """Notes that the reader now reads from the feed's positions."""

    @abstractmethod
    def at_end(self, ends: Mapping[int, int]) -> bool:
        """True if everything up to the ends of a drain is here."""

    @abstractmethod
    def watermark(self, ranges: Sequence[Range], now_ms: float) -> int:
        """The watermark behind these ranges, in microseconds since 1970."""

    def standings(self) -> dict[int, Standing]:
        """The present state of each partition."""
        return {}

    def idle(self, now_ms: float) -> bool:
        """True if other sources need not wait for its watermark. Never for Spark's output, whose progress only Spark
        knows."""
        return False

    # -- cuts that are valid ------------------------------------------------------------------------------------------

    def read_cut(self, cut: Cut, now_ms: float) -> None:
        """Adds a valid cut of this task, from any copy, and the partitions that join with it."""
        self.last_cut_ms = now_ms
        self._see(cut, now_ms)
        if cut.batch > self.batch:
            self._cuts[cut.batch] = cut
        else:
            self._pass(cut)

    @property
    def ending(self) -> bool:
        """True if its last cut is known or done."""
        return self.ended or any(cut.final for cut in self._cuts.values())

    def skip(self, batch: int) -> None:
        """Continues behind a batch that another copy has done. Later cuts up to that batch are dropped on arrival."""
        for number in sorted(number for number in self._cuts if number <= batch):
            self._pass(self._cuts.pop(number))
        self.batch = max(self.batch, batch)

    def ready(self, batch: int) -> bool:
        """True if the batch is cut and its records are here."""
        if self.ended:
            return True
        cut = self._cuts.get(batch)
        return cut is not None and self._here(cut)

    def take(self, batch: int) -> Brought:
        """Returns the input of a ready batch and advances to it."""
        cut, before = self._cuts.pop(batch), self.bytes
        brought = self._bring(cut)
        self._pass(cut)
        self.batch = batch
        return brought._replace(bytes=before - self.bytes)

    @abstractmethod
    def weight(self, cut: Cut) -> int:
        """The approximate bytes of a cut's records that are here."""

    def missing(self, batch: int) -> Mapping[Partition, int]:
        """End offsets of the batch's cut whose records are not here, by partition of a user's topic."""
        return {}

    def gone(self, batch: int) -> str:
        """The reason why records of a cut batch can never arrive; empty if they may."""
        return ""

    def _pass(self, cut: Cut) -> None:
        self._drop(cut)
        self.ended = cut.final

    @abstractmethod
    def _see(self, cut: Cut, now_ms: float) -> None:
        """Moves the start of the next cut behind this one."""

    @abstractmethod
    def _here(self, cut: Cut) -> bool:
        """True if the records of the cut are here."""

    @abstractmethod
    def _bring(self, cut: Cut) -> Brought: ...

    @abstractmethod
    def _drop(self, cut: Cut) -> None:
        """Drops the records of the cut."""
