"""Records that a reader refused, since they cannot be parsed or do not fit what is known: skipped, counted, reported.

Every reader of a topic of ours reports here, so that people see in `events` which record it was and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition

KIND = "record-refused"
QUIET_MS = 10_000.0
"""Least time between two events of one topic; those in between are reported as a number."""
CAUSE_CHARACTERS = 300
MOST_TOPICS = 32
"""Number of topics that a heartbeat names."""


@dataclass(slots=True)
class _Topic:
    """reported_ms: when the last event went out; unreported: records refused since."""

    reported_ms: float
    unreported: int = 0


class Refusals:
    """Refusals of one process.

    Args:
        publish: publishes an event.
        clock_ms: monotonic.
        time_ms: time of day.
    """

    def __init__(
        self, publish: Callable[[Event], None], clock_ms: Callable[[], float], time_ms: Callable[[], int]
    ) -> None:
        self._publish, self._clock_ms, self._time_ms = publish, clock_ms, time_ms
        self._topics: dict[str, _Topic] = {}
        self.counts: Counter[str] = Counter()
        """Records refused by topic, each once, though several readers of the process refuse it."""
        self._furthest: dict[Partition, int] = {}

    def most(self) -> dict[str, int]:
        """Records refused, of the topics with most of them. From any thread."""
        counts = dict(self.counts)
        return counts if len(counts) <= MOST_TOPICS else dict(Counter(counts).most_common(MOST_TOPICS))

    def refuse(self, partition: Partition, offset: int, cause: object, job: str = "") -> None:
        """Counts a record, and reports it unless another one of its topic was reported a moment ago."""
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
