"""The worker's data reader. It fetches records of jobs with a latency budget only when a batch is due.

Kafka answers an open request at each new record: 200 times a second if an application appends that often. Each answer
costs Kafka, the client library and the loop as much as a batch does, and a batch needs one (docs/decisions/0113).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Chunk, Log, Reader

BULK, HURRY_MS = 4_000, 1.0
"""Number of records in one poll that is followed by the next poll after HURRY_MS, because there is a backlog."""
LEAD_MS = 5.0
"""Time by which a poll precedes the time when records are needed. An on-demand reader holds records from after its
previous poll; this poll empties it, so that it has fetched newer records by then."""


class PacedReader:
    """Implements Reader over two readers: one that always fetches, and one that fetches on demand.

    Args:
        seldom: on-demand reader (services/log/protocol.py).
        paced: True for a partition that belongs to it from its next assignment.
        signals: partitions that `often` reads only to be woken. The first is the bell, which `seldom` follows as well
            while it has others: each record there ends the request that waits at the broker, so that the next request
            names the partitions that were added meanwhile.

    Attributes:
        wanted_ms: clock time at which records of paced partitions are needed.
        looked_ms: clock time of their last poll.
    """

    def __init__(
        self,
        often: Reader,
        seldom: Reader,
        paced: Callable[[Partition], bool],
        clock_ms: Callable[[], float],
        signals: Sequence[Partition] = (),
    ) -> None:
        self._often = often
        self._seldom = seldom
        self._paced = paced
        self._clock_ms = clock_ms
        self._signals = frozenset(signals)
        self._bell = next(iter(signals), None)
        self._bell_at = 0
        self._follows_bell = False
        self._always: set[Partition] = set()
        self._mine: set[Partition] = set()
        self._kept: list[Chunk] = []
        self._hurries = False
        self.wanted_ms = -math.inf
        self.looked_ms = -math.inf

    @classmethod
    def of(
        cls,
        log: Log,
        name: str,
        paced: Callable[[Partition], bool],
        clock_ms: Callable[[], float],
        signals: Sequence[Partition],
    ) -> PacedReader:
        """The pair of a worker of this name."""
        often = log.reader(f"{name}-data")
        seldom = log.reader(f"{name}-paced", on_demand=True)
        return cls(often, seldom, paced, clock_ms, signals=signals)

    @property
    def paces(self) -> bool:
        """True if some partition is paced."""
        return bool(self._mine)

    @property
    def all_on_demand(self) -> bool:
        """True if no partition of a job is read all the time: what comes then comes when it is looked for."""
        return bool(self._mine) and not self._always

    @property
    def next_ms(self) -> float:
        """The time of the next poll of paced partitions, which may bring nothing."""
        if self._hurries:
            return self.looked_ms + HURRY_MS
        early = self.wanted_ms - LEAD_MS
        return self.wanted_ms if self.looked_ms >= early else early

    def wants(self, wanted_ms: Callable[[float], float]) -> float:
        """Sets wanted_ms from the time of the last poll. Returns the time of the next poll."""
        self.wanted_ms = wanted_ms(self.looked_ms)
        return self.next_ms

    def assign(self, positions: Mapping[Partition, int]) -> None:
        seldom = {partition for partition in positions if self._paced(partition)}
        often = positions.keys() - seldom
        self._seldom.unassign(self._mine & often)
        self._often.unassign(seldom - self._mine)
        self._mine = (self._mine - often) | seldom
        self._always = (self._always | often) - seldom - self._signals
        self._often.assign({partition: at for partition, at in positions.items() if partition in often})
        self._seldom.assign({partition: at for partition, at in positions.items() if partition in seldom})
        if self._bell is not None:
            self._bell_at = positions.get(self._bell, self._bell_at)
            self._follow_bell(self._bell)

    def unassign(self, partitions: Iterable[Partition]) -> None:
        gone = set(partitions)
        self._seldom.unassign(gone & self._mine)
        self._often.unassign(gone - self._mine)
        self._mine -= gone
        self._always -= gone
        if self._bell is not None:
            self._follow_bell(self._bell)

    def pause(self, partitions: Iterable[Partition]) -> None:
        held = set(partitions)
        self._seldom.pause(held & self._mine)
        self._often.pause(held - self._mine)

    def resume(self, partitions: Iterable[Partition]) -> None:
        freed = set(partitions)
        self._seldom.resume(freed & self._mine)
        self._often.resume(freed - self._mine)

    def poll(self, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        """Polls both readers. If one reader raises, the chunks of the other one are kept for the next poll."""
        if not (self._mine or self._kept):
            found = self._often.poll(timeout_s, max_messages)
            self._hear(found)
            return found
        now_ms = self._clock_ms()
        share = max(1, max_messages // 2) if self._mine else max_messages
        if self._mine and now_ms >= self.next_ms:
            self.looked_ms = now_ms
            self._kept += self._seldom.poll(0, share)
            self._hurries = sum(len(chunk.messages) for chunk in self._kept) >= BULK
        found = self._often.poll(0 if self._kept else timeout_s, share)
        self._hear(found)
        kept, self._kept = self._kept, []
        return kept + found

    def current(self, chunk: Chunk) -> bool:
        return (self._seldom if chunk.partition in self._mine else self._often).current(chunk)

    def _follow_bell(self, bell: Partition) -> None:
        """Lets `seldom` follow the bell exactly while it has other partitions. `current` drops its records."""
        if self._follows_bell == self.paces:
            return
        self._follows_bell = self.paces
        if self._follows_bell:
            self._seldom.assign({bell: self._bell_at})
        else:
            self._seldom.unassign([bell])

    def _hear(self, chunks: Iterable[Chunk]) -> None:
        """Notes where the bell is to be followed from."""
        for chunk in chunks:
            if chunk.partition == self._bell and chunk.messages:
                self._bell_at = chunk.messages[-1].offset() + 1

    def close(self) -> None:
        self._often.close()
        self._seldom.close()
