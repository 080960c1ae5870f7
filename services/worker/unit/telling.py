"""When a copy tells the others of its progress. Source: PROTOCOL 1, `<job>.<g>.progress`."""

from __future__ import annotations

import math

from schemas.progress import Progress, encode
from schemas.topics import Partition
from services.log.protocol import Appender

PROGRESS_MS = 100


class Telling:
    """The progress that a copy has published: at most every PROGRESS_MS, and counted only once it is appended.

    Args:
        partition: of the job's progress.
    """

    def __init__(self, partition: Partition, appender: Appender, now_ms: float) -> None:
        self._partition, self._appender = partition, appender
        self._last_ms = now_ms
        self._batch = -1

    def due_ms(self, batch: int) -> float:
        """When to publish the batch: never, if it has been published."""
        return math.inf if self._batch >= batch else self._last_ms + PROGRESS_MS

    def tell(self, progress: Progress, now_ms: float) -> None:
        self._last_ms, self._batch = now_ms, progress.processed
        self.append(progress)

    def append(self, progress: Progress) -> None:
        """Tells what does not count as the copy's own telling."""
        self._appender.append(self._partition, encode(progress), key=progress.unit.encode())
