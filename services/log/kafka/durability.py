"""Durability of created topics: the number of replicas, and how many of them must have a record before it counts.

Source: PROTOCOL 1: 1 of 1 embedded, 2 of 3 deployed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from holdfast.schemas.topics import TopicSpec


@dataclass(frozen=True, slots=True)
class Durability:
    """Replicas of a new topic, and replicas that must have a record; None: the broker's default."""

    replication_factor: int | None = None
    min_insync_replicas: int | None = None

    def of(self, topics: Iterable[TopicSpec]) -> list[TopicSpec]:
        return [self._one(topic) for topic in topics]

    def _one(self, topic: TopicSpec) -> TopicSpec:
        if self.replication_factor is not None:
            topic = replace(topic, replicas=self.replication_factor)
        if self.min_insync_replicas is not None:
            topic = replace(topic, config={**topic.config, "min.insync.replicas": str(self.min_insync_replicas)})
        return topic
