"""The partitions that a worker reads, and their subscribers.

Source: PROTOCOL 5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Chunk

Handler = Callable[[Chunk], None]
"""Receives the chunks of a partition."""


class Subscriber(Protocol):
    """Reads partitions."""

    def handler(self, partition: Partition) -> Handler:
        """The handler of a partition. A reader asks for it once for each `add`, not for each chunk."""
        ...

    def broken(self, cause: str, partition: Partition | None = None) -> None:
        """Reports that a position of its partitions can no longer be read; `partition` is that partition if known."""
        ...


class Subscriptions(Protocol):
    """The partitions that a worker reads, each with one position that its subscribers share."""

    def add(self, subscriber: Subscriber, positions: Mapping[Partition, int]) -> None: ...
    def connect(self, subscriber: Subscriber, positions: Mapping[Partition, int]) -> None:
        """Prepares partitions for a later `add` by the subscriber, without reading them."""
        ...

    def disconnect(self, subscriber: Subscriber) -> None:
        """Ends the preparation of the subscriber's connected partitions."""
        ...

    def remove(self, subscriber: Subscriber, partitions: Collection[Partition] | None = None) -> None:
        """Ends the subscription of some partitions; None for all partitions of the subscriber."""
        ...

    def hold(self, holder: object, partition: Partition, held: bool) -> None:
        """Holds or releases a partition. Fetching stops for all subscribers while any holder holds it."""
        ...
