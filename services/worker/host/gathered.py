"""Gathers the appends of all copies of a worker in one turn, so that they share a request to Kafka.

The client library sends as soon as it has a record. Without gathering, copies with a batch between their appends would
send a request each.
"""

from __future__ import annotations

from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Appender


class Gathered:
    """Records that wait until the end of the turn, since no step waits for them."""

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
