"""What a copy needs of the worker that hosts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from schemas.events import Event
from schemas.topics import Partition
from services.kernel.decided import Author
from services.kernel.image import Image
from services.log.protocol import Appender, Chunk, Log
from services.worker.blocking import Blocking


class Subscriber(Protocol):
    """Gets what is read of the partitions it has subscribed to."""

    def offer(self, chunk: Chunk) -> None: ...
    def broken(self, cause: str) -> None:
        """A position of its partitions can no longer be read."""
        ...


class Subscriptions(Protocol):
    """The partitions that a worker reads, each with one position that its subscribers share."""

    def add(self, subscriber: Subscriber, positions: Mapping[Partition, int]) -> None: ...
    def remove(self, subscriber: Subscriber) -> None: ...
    def hold(self, partition: Partition, held: bool) -> None:
        """Stops (or goes on) fetching; of several subscribers any one holds."""
        ...

    def go_on(self, partition: Partition, offset: int) -> None:
        """Fetches what was held again, from an offset that may lie ahead; of several subscribers each gets all."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """clock_ms is monotonic, cpu_ms that of the loop's thread, time_ms the time of day.

    image(name) opens a new, empty image.

    read_decisions(done): calls done once `assignments` has been read to its present end.
    """

    log: Log
    appender: Appender
    deliveries: Blocking
    restores: Blocking
    author: Author
    versions: Mapping[str, str]
    clock_ms: Callable[[], float]
    cpu_ms: Callable[[], float]
    time_ms: Callable[[], int]
    image: Callable[[str], Image]
    data: Subscriptions
    control: Subscriptions
    read_decisions: Callable[[Callable[[], None]], None]
    happened: Callable[[Event], None]
