"""Services of a worker that a copy needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.schemas.events import Event
from holdfast.services.decisions.decided import Author
from holdfast.services.decisions.refusals import Refusals
from holdfast.services.hosting.blocking import Blocking
from holdfast.services.hosting.doing import Doing
from holdfast.services.kernel.codecs.registered import NO_SCHEMAS, Schemas
from holdfast.services.kernel.state.image import Image
from holdfast.services.log.protocol import Appender, Log
from holdfast.services.worker.checkpoint.scheduler import Scheduler
from holdfast.services.worker.host.gathered import Gathered
from holdfast.services.worker.host.presence import Presence
from holdfast.services.worker.host.subscriptions import Subscriber, Subscriptions
from holdfast.services.worker.host.topic_watch import TopicWatch
from holdfast.services.worker.isolated.isolation import Isolation

__all__ = ["HostServices", "Subscriber", "Subscriptions"]


@dataclass(frozen=True, slots=True)
class HostServices:
    """clock_ms is monotonic, cpu_ms that of the loop's thread, time_ms the time of day.

    doing: what the loop is at.

    image(name) opens a new, empty image.

    asks: questions to Kafka that may wait long for an answer, and keep nothing else waiting. answers: those that users'
    code asks others.

    checkpoints: says when the units here capture and apply. presence: says whether units elsewhere run.

    isolation: what holds for code in processes of its own; None: there are none.

    progress: what copies publish of theirs; it goes out at the end of the turn.

    left: a copy was closed, and leaves behind what refers to itself.

    schemas: of the registry, for sources whose records name theirs.

    read_decisions(done): calls done once `assignments` has been read to its present end.
    """

    log: Log
    doing: Doing
    appender: Appender
    deliveries: Blocking
    restores: Blocking
    asks: Blocking
    answers: Blocking
    checkpoints: Scheduler
    author: Author
    clock_ms: Callable[[], float]
    cpu_ms: Callable[[], float]
    time_ms: Callable[[], int]
    image: Callable[[str], Image]
    data: Subscriptions
    control: Subscriptions
    topics: TopicWatch
    presence: Presence
    read_decisions: Callable[[Callable[[], None]], None]
    happened: Callable[[Event], None]
    refusals: Refusals
    isolation: Isolation | None
    progress: Gathered
    left: Callable[[], None] = lambda: None
    schemas: Schemas = NO_SCHEMAS
