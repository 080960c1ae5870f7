"""Appends of all copies of a worker in a turn, made one right after the other: they share a request to Kafka.

The library sends what there is as soon as there is something. Copies that append each in its own step, with a batch
between them, send a request each.
"""

from __future__ import annotations

from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Appender


class Gathered:
    """Records that nobody waits for, until the end of the turn."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self._records: list[tuple[Partition, bytes, bytes]] = []

    def append(self, partition: Partition, value: bytes, key: bytes) -> None:
        self._records.append((partition, value, key))

    def send(self) -> None:
        if not self._records:
            return
        records, self._records = self._records, []
        for partition, value, key in records:
            self._appender.append(partition, value, key=key)
