"""Times at which results arrived at a read_committed reader, and at which their records were sent."""

from __future__ import annotations

from collections import deque
from itertools import pairwise, takewhile

import msgspec

from bench.rig.cluster import now_ms
from bench.rig.following import Following
from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Log

KEPT = 100_000
POLL_S = 0.05


class _Row(msgspec.Struct):
    sent: int


class Arrivals(Following):
    """Follows a topic in a thread of its own; `seen` may be looked at meanwhile: (arrived ms, newest record's time)."""

    def __init__(self, log: Log, topic: str) -> None:
        super().__init__(log, "arrivals", [Partition(topic, 0)])
        self._decode = msgspec.json.Decoder(_Row).decode
        self.seen: deque[tuple[float, int]] = deque(maxlen=KEPT)

    def _turn(self) -> None:
        chunks, arrived_ms = self._reader.poll(POLL_S), now_ms()
        for chunk in chunks:
            if chunk.messages:
                newest = self._decode(chunk.messages[-1].value() or b"").sent
                self.seen.append((arrived_ms, newest))

    # -- what they say ------------------------------------------------------------------------------------------------

    def first_after(self, signal_ms: float) -> float | None:
        """Time at which the first result of a record sent after the signal arrived."""
        return next((at for at, sent in self._since(signal_ms) if sent >= signal_ms), None)

    def silence(self, from_ms: float, to_ms: float) -> float:
        """The longest time without a result between two times."""
        times = [from_ms, *(at for at, _ in self._since(from_ms) if from_ms < at < to_ms), to_ms]
        return max(after - before for before, after in pairwise(times))

    def _since(self, from_ms: float) -> list[tuple[float, int]]:
        """The arrivals since a time. Called during a takeover, when the whole list would be long."""
        newest = takewhile(lambda one: one[0] >= from_ms, reversed(list(self.seen)))
        return list(newest)[::-1]
