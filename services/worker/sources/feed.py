"""What a copy asks of whatever feeds one of its source tasks: the user's topic, or what Spark has committed.

Source: PROTOCOL 3 and 12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from schemas.cuts import Cut, Range
from schemas.dead_letters import DeadLetter
from schemas.topics import Partition
from services.kernel.dataflow.unit import Fed
from services.kernel.planning.layout import TaskLayout
from services.log.protocol import Chunk
from services.worker.core.idling import Idling, Standing


class Feed(Protocol):
    """Feeds one source task. taken counts records since the marker; ended: the last cut done was final.

    idling: when its partitions are idle; None: never, whatever feeds it tells the time. lives: grows when it is to be
    read from elsewhere.
    """

    task: TaskLayout
    batch: int
    ended: bool
    taken: int
    lives: int
    last_cut_ms: float

    @property
    def idling(self) -> Idling | None: ...
    @property
    def records(self) -> int:
        """Records that no cut names yet."""
        ...

    @property
    def bytes(self) -> int: ...

    def positions(self) -> dict[int, int]:
        """Where each partition is to be read from."""
        ...

    def offer(self, chunk: Chunk, now_ms: float) -> None:
        """Takes what the reader brought of one of the task's partitions."""
        ...

    def backlog(self, partition: int) -> int:
        """Records that wait."""
        ...

    def read_cut(self, cut: Cut, now_ms: float) -> None:
        """Takes a valid cut of this task, ours or another copy's, and the partitions that join with it."""
        ...

    def weight(self, cut: Cut) -> int:
        """Bytes, about, of the records that are here and that a cut names."""
        ...

    def at_end(self, ends: Mapping[int, int]) -> bool:
        """Whether all that a drain asks for is here."""
        ...

    def propose(
        self, batch: int, max_records: int, max_bytes: int, ends: Mapping[int, int] | None
    ) -> tuple[tuple[Range, ...], bool]:
        """Ranges of the next cut, and whether it is the last one."""
        ...

    def standings(self) -> dict[int, Standing]:
        """Where each partition stands now."""
        ...

    def idle(self, now_ms: float) -> bool:
        """Whether other sources need not wait for its watermark."""
        ...

    def watermark(self, ranges: Sequence[Range], now_ms: float) -> int:
        """Behind these ranges, microseconds since 1970."""
        ...

    def skip(self, batch: int) -> None:
        """Goes on behind a batch that another copy has done."""
        ...

    def ready(self, batch: int) -> bool:
        """Whether the batch is cut and its records are here."""
        ...

    def missing(self, batch: int) -> Mapping[Partition, int]:
        """Up to where a batch is cut whose records are not here, by partition of a topic of the user's."""
        ...

    def take(self, batch: int) -> tuple[Fed, list[DeadLetter], Cut]:
        """The rows of a ready batch, the records that are none, and the cut."""
        ...
