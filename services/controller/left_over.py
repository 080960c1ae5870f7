"""Savepoints on Kafka that no job begins with: a command was killed between bringing one there and submitting the job.

Source: docs/decisions/0183. A topic that nobody names for so long is none on its way any more.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.schemas.topics import ClusterTopics

LEFT_MS = 3_600_000
"""A command submits its job as soon as the savepoint is there, and that takes minutes at most."""


class LeftOver:
    """Topics of savepoints, and since when nobody has named each, as far as this process has looked."""

    def __init__(self, cluster: ClusterTopics) -> None:
        self._cluster = cluster
        self._since_ms: dict[str, int] = {}

    def due(self, present: Collection[str], named: Collection[str], now_ms: int) -> list[str]:
        """Topics to delete now.

        Args:
            present: topics there are. named: those of savepoints with which jobs begin or have begun.
        """
        unnamed = [name for name in sorted(present) if name.startswith(self._cluster.savepoints) and name not in named]
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in unnamed}
        return [name for name, since_ms in self._since_ms.items() if now_ms - since_ms >= LEFT_MS]
