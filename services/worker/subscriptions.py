"""Who reads what: one reader, and for each partition the subscribers that share its position.

Source: PROTOCOL 5 (one consumer cannot hold two positions in one partition: subscribers share the lower one, and each
drops what it has).
"""

from __future__ import annotations

from collections.abc import Mapping

from schemas.topics import Partition
from services.kernel.errors import PositionGone
from services.log.protocol import Chunk, Reader
from services.worker.surroundings import Subscriber


class SharedReader:
    """Implements Subscriptions over one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._subscribers: dict[Partition, list[Subscriber]] = {}
        self._next: dict[Partition, int] = {}
        self._ends: dict[Partition, Chunk] = {}
        self._held: set[Partition] = set()

    def __len__(self) -> int:
        return len(self._subscribers)

    def add(self, subscriber: Subscriber, positions: Mapping[Partition, int]) -> None:
        """Positions already read past are read again. Of an end met before it is told too: it is met only once."""
        moved = {}
        for partition, offset in positions.items():
            self._subscribers.setdefault(partition, []).append(subscriber)
            if partition not in self._next or offset < self._next[partition]:
                moved[partition] = self._next[partition] = offset
                self._ends.pop(partition, None)
        self._reader.assign(moved)
        self._held -= set(moved)
        for end in [self._ends[partition] for partition in positions if partition in self._ends]:
            subscriber.offer(end)

    def remove(self, subscriber: Subscriber) -> None:
        gone = []
        for partition, subscribers in list(self._subscribers.items()):
            if subscriber in subscribers:
                subscribers.remove(subscriber)
            if not subscribers:
                del self._subscribers[partition], self._next[partition]
                self._ends.pop(partition, None)
                gone.append(partition)
        self._reader.unassign(gone)
        self._held -= set(gone)

    def hold(self, partition: Partition, held: bool) -> None:
        if held and partition not in self._held:
            self._held.add(partition)
            self._reader.pause([partition])
        elif not held and partition in self._held:
            self._held.discard(partition)
            self._reader.resume([partition])

    def go_on(self, partition: Partition, offset: int) -> None:
        if offset > self._next[partition] and len(self._subscribers[partition]) == 1:
            self._next[partition] = offset
            self._ends.pop(partition, None)
            self._held.discard(partition)
            self._reader.assign({partition: offset})
        else:
            self.hold(partition, False)

    def poll(self, timeout_s: float) -> bool:
        """Reads and hands out; True if anything came."""
        try:
            chunks = self._reader.poll(timeout_s)
        except PositionGone as gone:
            self._break(gone)
            return True
        for chunk in chunks:
            if not self._reader.current(chunk):
                continue
            if chunk.messages and chunk.partition in self._next:
                self._next[chunk.partition] = chunk.messages[-1].offset() + 1
            if chunk.end is not None and chunk.partition in self._next:
                self._ends[chunk.partition] = Chunk(chunk.partition, [], chunk.end, chunk.generation)
            for subscriber in list(self._subscribers.get(chunk.partition, ())):
                subscriber.offer(chunk)
        return any(chunk.messages for chunk in chunks)

    def close(self) -> None:
        self._reader.close()

    def _break(self, gone: PositionGone) -> None:
        """Whoever reads the partition rebuilds."""
        for subscriber in list(self._subscribers.get(gone.partition, ())):
            subscriber.broken(str(gone))
