"""The services that a worker offers its copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.schemas.events import Event
from holdfast.services.decisions.decided import Author
from holdfast.services.decisions.refusals import Refusals
from holdfast.services.hosting.blocking_calls import Blocking
from holdfast.services.hosting.present_work import PresentWork
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
    """The services of a worker.

    Attributes:
        clock_ms: monotonic time.
        cpu_ms: CPU time of the loop's thread.
        time_ms: time of day.
        doing: present work of the loop.
        image: opens a new, empty image with a name.
        asks: runs questions to Kafka, which may wait long and delay nothing else.
        answers: runs calls of users' code to other services.
        checkpoints: schedules captures and applications of the units here.
        presence: presence of units elsewhere.
        isolation: rules for code in processes of its own; None if there are none.
        progress: gathers the progress of copies until the end of the turn.
        left: called when a copy was closed, whose objects refer to one another.
        schemas: the registry, for sources whose records name schemas.
        read_decisions: calls its argument when `assignments` has been read to its present end.
    """

    log: Log
    doing: PresentWork
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
