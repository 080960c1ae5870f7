"""Savepoints on Kafka that no job begins with: a command was killed between copying one there and submitting the job.

Source: docs/decisions/0183. A topic that no job has named for LEFT_MS is no longer about to be used.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.schemas.topics import ClusterTopics

LEFT_MS = 3_600_000
"""Time after which an unnamed topic is deleted; a command submits its job at most minutes after the copy."""


class LeftOver:
    """Topics of savepoints, and the time since which this process has found no job that names each."""

    def __init__(self, cluster: ClusterTopics) -> None:
        self._cluster = cluster
        self._since_ms: dict[str, int] = {}

    def due(self, present: Collection[str], named: Collection[str], now_ms: int) -> list[str]:
        """Returns the topics to delete now.

        Args:
            present: the existing topics.
            named: topics of savepoints with which jobs begin or have begun.
        """
        unnamed = [name for name in sorted(present) if name.startswith(self._cluster.savepoints) and name not in named]
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in unnamed}
        return [name for name, since_ms in self._since_ms.items() if now_ms - since_ms >= LEFT_MS]
