"""Records that a reader refused because they cannot be parsed or do not fit: skipped, counted, reported.

Every reader of the cluster's topics reports here, so that people see in `events` which record it was and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition

KIND = "record-refused"
QUIET_MS = 10_000.0
"""Least time between two events of one topic; refusals in between are reported as a number."""
CAUSE_CHARACTERS = 300
MOST_TOPICS = 32
"""Number of topics that a heartbeat names."""


@dataclass(slots=True)
class _Topic:
    """Refusals of one topic.

    reported_ms: time of the last event.
    unreported: number of records refused since.
    """

    reported_ms: float
    unreported: int = 0


class Refusals:
    """Refusals of one process.

    Args:
        publish: publishes an event.
        clock_ms: monotonic clock.
        time_ms: time of day.
    """

    def __init__(
        self, publish: Callable[[Event], None], clock_ms: Callable[[], float], time_ms: Callable[[], int]
    ) -> None:
        self._publish = publish
        self._clock_ms = clock_ms
        self._time_ms = time_ms
        self._topics: dict[str, _Topic] = {}
        self.counts: Counter[str] = Counter()
        """Number of refused records by topic; a record counts once even if several readers refuse it."""
        self._furthest: dict[Partition, int] = {}

    def most(self) -> dict[str, int]:
        """Returns the numbers of refused records of the topics with the most. Safe from any thread."""
        counts = dict(self.counts)
        return counts if len(counts) <= MOST_TOPICS else dict(Counter(counts).most_common(MOST_TOPICS))

    def refuse(self, partition: Partition, offset: int, cause: object, job: str = "") -> None:
        """Counts a record, and reports it unless another record of its topic was reported within QUIET_MS."""
        if offset > self._furthest.get(partition, -1):
            self._furthest[partition] = offset
            self.counts[partition.topic] += 1
        now_ms, topic = self._clock_ms(), self._topics.get(partition.topic)
        if topic is not None and now_ms - topic.reported_ms < QUIET_MS:
            topic.unreported += 1
            return
        more = f" (and {topic.unreported} before it)" if topic is not None and topic.unreported else ""
        self._topics[partition.topic] = _Topic(now_ms)
        detail = f"{partition} offset {offset}: {str(cause)[:CAUSE_CHARACTERS]}{more}"
        event = Event(
            self._time_ms(), KIND, job, detail=detail, topic=partition.topic, partition=partition.index, offset=offset
        )
        self._publish(event)
