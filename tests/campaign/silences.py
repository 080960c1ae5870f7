"""The longest time without a result, as a reader of a sink's topic sees it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import pairwise

from bench.rig.following import Following
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.protocol import Log

POLL_S = 0.05


class Follower(Following):
    """Reads partitions, read_committed, from entering to leaving. seen: times of arrival, on the monotonic clock."""

    def __init__(self, log: Log, partitions: Iterable[Partition]) -> None:
        super().__init__(log, "follower", partitions)
        self.seen: list[float] = []

    def _turn(self) -> None:
        try:
            chunks = self._reader.poll(POLL_S)
        except Retriable:
            return
        if any(chunk.messages for chunk in chunks):
            self.seen.append(time.monotonic())


def silence_ms(seen: Sequence[float], since: float, until: float) -> int:
    """The longest time between two arrivals, of which one is after `since`; the ends count as arrivals."""
    times = [since, *(at for at in list(seen) if since < at < until), until]
    return round(1000 * max(after - before for before, after in pairwise(times)))
