"""Feed of a source task of a copy: the cuts that wait to be done, and the records that they name.

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
from holdfast.services.worker.core.idling import Idling, Standing


class Feed(ABC):
    """Feeds one source task, of a user's topic or of what Spark writes. Implements Source of kernel/dataflow/walk.py.

    Args:
        task: with its source share.
        state: the task's last cut as of the marker.
        batch: the last batch that is done.

    ended: the last cut done was final. lives: grows when it is to be read from elsewhere. idling: when its partitions
    are idle; None: never, whatever feeds it says how far time is. continues: records that are gone before they were cut
    count as lost; else they end the job.
    """

    idling: Idling | None = None
    continues = True

    def __init__(self, task: TaskLayout, state: TaskCuts, batch: int) -> None:
        self.task, self.batch, self.ended = task, batch, state.final
        self.lives = 0
        self.last_cut_ms = 0.0
        self._cuts: dict[int, Cut] = {}

    # -- records ------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def records(self) -> int:
        """Records that no cut names yet."""

    @property
    def oldest_ms(self) -> int | None:
        """The stamp of the first record that no cut names yet; None: there is none, or it has none."""
        return None

    @property
    @abstractmethod
    def bytes(self) -> int:
        """About, of the records that are here."""

    @abstractmethod
    def positions(self) -> dict[int, int]:
        """Offset of each partition from which it is to be read."""

    @abstractmethod
    def offer(self, chunk: Chunk, now_ms: float) -> None:
        """Takes what the reader brought of one of the task's partitions."""

    @abstractmethod
    def backlog(self, partition: int) -> int:
        """Records that wait."""

    @property
    def leap(self) -> Leap | None:
        """The record that moved the watermark furthest, since the feed began; None: none stands out."""
        return None

    # -- cuts that are to be made -------------------------------------------------------------------------------------

    @abstractmethod
    def propose(
        self, batch: int, max_records: int, max_bytes: int, ends: Mapping[int, int] | None
    ) -> tuple[tuple[Range, ...], bool]:
        """Ranges of the next cut, and whether it is the last one."""

    def unknown(self, batch: int) -> tuple[int, ...]:
        """Ids of schemas of the proposed batch that the registry does not know."""
        return ()

    @property
    def keeps_out(self) -> bool:
        """Records came that are to be read again, once what they need is known."""
        return False

    @property
    def waits(self) -> str:
        """Why records are kept out; or empty."""
        return ""

    def rewired(self) -> None:  # noqa: B027 - only a feed that keeps records out has something to do
        """From now on its partitions are read from its positions."""

    @abstractmethod
    def at_end(self, ends: Mapping[int, int]) -> bool:
        """True if all that a drain asks for is here."""

    @abstractmethod
    def watermark(self, ranges: Sequence[Range], now_ms: float) -> int:
        """Behind these ranges, microseconds since 1970."""

    def standings(self) -> dict[int, Standing]:
        """Standing of each partition now."""
        return {}

    def idle(self, now_ms: float) -> bool:
        """True if other sources need not wait for its watermark. Of Spark: never, only Spark knows how far it is."""
        return False

    # -- cuts that are valid ------------------------------------------------------------------------------------------

    def read_cut(self, cut: Cut, now_ms: float) -> None:
        """Takes a valid cut of this task, ours or another copy's, and the partitions that join with it."""
        self.last_cut_ms = now_ms
        self._see(cut, now_ms)
        if cut.batch > self.batch:
            self._cuts[cut.batch] = cut
        else:
            self._pass(cut)

    @property
    def ending(self) -> bool:
        """Its last cut is known, or done."""
        return self.ended or any(cut.final for cut in self._cuts.values())

    def skip(self, batch: int) -> None:
        """Continues behind a batch that another copy has done; cuts up to it that are read later are passed then."""
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
        """Hands out a ready batch."""
        cut, before = self._cuts.pop(batch), self.bytes
        brought = self._bring(cut)
        self._pass(cut)
        self.batch = batch
        return brought._replace(bytes=before - self.bytes)

    @abstractmethod
    def weight(self, cut: Cut) -> int:
        """Bytes, about, of the records that are here and that a cut names."""

    def missing(self, batch: int) -> Mapping[Partition, int]:
        """Up to where a batch is cut whose records are not here, by partition of a user's topic."""
        return {}

    def gone(self, batch: int) -> str:
        """Why records of a batch that is cut will never be here; empty if they may."""
        return ""

    def _pass(self, cut: Cut) -> None:
        self._drop(cut)
        self.ended = cut.final

    @abstractmethod
    def _see(self, cut: Cut, now_ms: float) -> None:
        """The next cut begins behind this one."""

    @abstractmethod
    def _here(self, cut: Cut) -> bool:
        """True if its records are here."""

    @abstractmethod
    def _bring(self, cut: Cut) -> Brought: ...

    @abstractmethod
    def _drop(self, cut: Cut) -> None:
        """Its records are not needed any more."""
