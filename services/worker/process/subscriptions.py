"""Readers with several subscribers: the subscribers of a partition share the position of one reader.

Source: PROTOCOL 5 (one consumer cannot hold two positions in one partition, so subscribers share the lower one, and
each drops records that it has).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import PositionGone
from holdfast.services.log.protocol import Chunk, Reader
from holdfast.services.worker.host.subscriptions import Handler, Subscriber


class Subscription(NamedTuple):
    """A subscriber of a partition, and the handler of the partition's chunks."""

    subscriber: Subscriber
    handle: Handler


class SharedReader:
    """Implements Subscriptions over one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._subscriptions: dict[Partition, dict[int, Subscription]] = {}
        """Subscriptions by partition, and by id of the subscriber."""
        self._next: dict[Partition, int] = {}
        self._ends: dict[Partition, Chunk] = {}
        self._held: dict[Partition, set[int]] = {}
        self._connected: dict[Partition, list[Subscriber]] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, subscriber: Subscriber, positions: Mapping[Partition, int]) -> None:
        """Adds a subscriber. Positions that were read already are read again. A known end of a partition is reported
        again, since the reader reports it only once."""
        moved = {}
        for partition, offset in positions.items():
            subscription = Subscription(subscriber, subscriber.handler(partition))
            self._subscriptions.setdefault(partition, {})[id(subscriber)] = subscription
            if partition not in self._next or offset < self._next[partition]:
                moved[partition] = self._next[partition] = offset
                self._ends.pop(partition, None)
        self._reader.assign(moved)
        self._forget_held(moved)
        ends = [partition for partition in positions if partition in self._ends]
        for handle, end in [(self._subscriptions[one][id(subscriber)].handle, self._ends[one]) for one in ends]:
            handle(end)

    def connect(self, subscriber: Subscriber, positions: Mapping[Partition, int]) -> None:
        """Assigns and pauses partitions that nobody reads yet."""
        new = {}
        for partition, offset in positions.items():
            connected = self._connected.setdefault(partition, [])
            if not connected and partition not in self._subscriptions:
                new[partition] = offset
            if all(one is not subscriber for one in connected):
                connected.append(subscriber)
        self._pause_at(new)

    def disconnect(self, subscriber: Subscriber) -> None:
        left = [partition for partition, connected in self._connected.items() if subscriber in connected]
        for partition in left:
            self._connected[partition].remove(subscriber)
            if not self._connected[partition]:
                del self._connected[partition]
        self._reader.unassign(p for p in left if p not in self._connected and p not in self._subscriptions)

    def _pause_at(self, positions: Mapping[Partition, int]) -> None:
        self._reader.assign(positions)
        self._reader.pause(list(positions))

    def remove(self, subscriber: Subscriber, partitions: Collection[Partition] | None = None) -> None:
        gone, kept = [], {}
        for partition in list(self._subscriptions) if partitions is None else partitions:
            subscriptions = self._subscriptions.get(partition, {})
            subscriptions.pop(id(subscriber), None)
            if not subscriptions and partition in self._subscriptions:
                del self._subscriptions[partition]
                at = self._next.pop(partition, None)
                self._ends.pop(partition, None)
                if partition in self._connected and at is not None:
                    kept[partition] = at
                else:
                    gone.append(partition)
        self._reader.unassign(gone)
        self._forget_held([*gone, *kept])
        self._pause_at(kept)

    def reassign(self, concerns: Callable[[Partition], bool]) -> None:
        """Assigns these partitions again at their positions, so that the reader distributes them again."""
        moved = {partition: at for partition, at in self._next.items() if concerns(partition)}
        self._reader.assign(moved)
        self._reader.pause([partition for partition in moved if partition in self._held])

    def hold(self, holder: object, partition: Partition, held: bool) -> None:
        before = self._held.pop(partition, set())
        after = before | {id(holder)} if held else before - {id(holder)}
        if after:
            self._held[partition] = after
        if after and not before:
            self._reader.pause([partition])
        elif before and not after:
            self._reader.resume([partition])

    def poll(self, timeout_s: float) -> bool:
        """Reads chunks and passes them to subscribers. True if any arrived."""
        try:
            chunks = self._reader.poll(timeout_s)
        except PositionGone as gone:
            self._break(gone)
            return True
        if not chunks:
            return False
        for chunk in chunks:
            if not self._reader.current(chunk):
                continue
            if chunk.messages and chunk.partition in self._next:
                self._next[chunk.partition] = chunk.messages[-1].offset() + 1
            if chunk.end is not None and chunk.partition in self._next:
                self._ends[chunk.partition] = Chunk(chunk.partition, [], chunk.end, chunk.generation)
            for subscription in list(self._subscriptions.get(chunk.partition, {}).values()):
                subscription.handle(chunk)
        return any(chunk.messages for chunk in chunks)

    def close(self) -> None:
        self._reader.close()

    def _forget_held(self, partitions: Iterable[Partition]) -> None:
        """Clears the holds of partitions that were assigned again, because the reader fetches them again."""
        for partition in partitions:
            self._held.pop(partition, None)

    def _break(self, gone: PositionGone) -> None:
        """Reports a lost position to the subscribers, which rebuild. Reading continues from the position of the next
        assignment."""
        self._next.pop(gone.partition, None)
        for subscription in list(self._subscriptions.get(gone.partition, {}).values()):
            subscription.subscriber.broken(str(gone), gone.partition)
