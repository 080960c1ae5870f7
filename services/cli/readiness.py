"""Readiness: a cluster can take jobs once its controller answers and each of its workers has given a sign of life."""

from __future__ import annotations

import msgspec

from schemas import events, heartbeats
from schemas.heartbeats import Heartbeat
from schemas.topics import ClusterTopics, Partition
from services.log.protocol import Log

CONTROLLER = "controller"
READY = "controller-ready"
"""The event that a controller tells when it has read all that was there."""


class Readiness:
    """Listens from now on."""

    def __init__(self, log: Log, topics: ClusterTopics) -> None:
        self._heartbeats, self._events = Partition(topics.heartbeats, 0), Partition(topics.events, 0)
        self._reader = log.reader("readiness")
        self._reader.assign(log.offsets([self._heartbeats, self._events], "end"))
        self._heard: set[str] = set()

    def poll(self, timeout_s: float) -> None:
        for chunk in self._reader.poll(timeout_s):
            for message in chunk.messages:
                self._hear(chunk.partition, message.value() or b"")

    def missing(self, workers: set[str]) -> list[str]:
        return sorted({CONTROLLER, *workers} - self._heard)

    def reached(self, workers: set[str]) -> bool:
        return not self.missing(workers)

    def close(self) -> None:
        self._reader.close()

    def _hear(self, partition: Partition, value: bytes) -> None:
        try:
            if partition == self._events:
                self._heard |= {CONTROLLER} if events.decode(value).kind == READY else set()
            elif isinstance(beat := heartbeats.decode(value), Heartbeat):
                self._heard.add(beat.worker)
        except msgspec.DecodeError:
            pass  # not ours
