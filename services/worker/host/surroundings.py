"""What a copy needs of the worker that hosts it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from schemas.events import Event
from schemas.topics import Partition
from services.hosting.blocking import Blocking
from services.kernel.logs.decided import Author
from services.kernel.logs.refusals import Refusals
from services.kernel.state.image import Image
from services.log.protocol import Appender, Chunk, Log
from services.worker.checkpoint.scheduler import Scheduler
from services.worker.host.topic_watch import TopicWatch


class Subscriber(Protocol):
    """Gets what is read of the partitions it has subscribed to."""

    def offer(self, chunk: Chunk) -> None: ...
    def broken(self, cause: str, partition: Partition | None = None) -> None:
        """A position of its partitions can no longer be read; of which one."""
        ...


class Subscriptions(Protocol):
    """The partitions that a worker reads, each with one position that its subscribers share."""

    def add(self, subscriber: Subscriber, positions: Mapping[Partition, int]) -> None: ...
    def remove(self, subscriber: Subscriber, partitions: Collection[Partition] | None = None) -> None:
        """From some of its partitions; None: from all."""
        ...

    def hold(self, holder: object, partition: Partition, held: bool) -> None:
        """Stops fetching, for all subscribers, until no holder holds it any more."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """clock_ms is monotonic, cpu_ms that of the loop's thread, time_ms the time of day.

    image(name) opens a new, empty image.

    asks: questions to Kafka that may wait long for an answer, and keep nothing else waiting.

    checkpoints: says when the units here capture and apply.

    read_decisions(done): calls done once `assignments` has been read to its present end.
    """

    log: Log
    appender: Appender
    deliveries: Blocking
    restores: Blocking
    asks: Blocking
    checkpoints: Scheduler
    author: Author
    versions: Mapping[str, str]
    clock_ms: Callable[[], float]
    cpu_ms: Callable[[], float]
    time_ms: Callable[[], int]
    image: Callable[[str], Image]
    data: Subscriptions
    control: Subscriptions
    topics: TopicWatch
    read_decisions: Callable[[Callable[[], None]], None]
    happened: Callable[[Event], None]
    refusals: Refusals
