"""Backlog of a process: the records that were in its topics when it started and that it has yet to read.

Source: PROTOCOL 0: a controller acts only once it knows what the logs said when it started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Log


class Backlog:
    """The partitions that have not been read to their end as it was at the start."""

    def __init__(self, starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> None:
        self._left = {partition: end for partition, end in ends.items() if end > starts[partition]}

    @classmethod
    def of(cls, log: Log, partitions: Iterable[Partition], begins: Mapping[Partition, int] | None = None) -> Backlog:
        """begins: where reading begins, unless at the start."""
        wanted = list(partitions)
        return cls(log.offsets(wanted, "start") | dict(begins or {}), log.offsets(wanted, "end"))

    @property
    def left(self) -> list[Partition]:
        return list(self._left)

    def read(self, partition: Partition, offset: int) -> None:
        """The record at this offset was read."""
        if offset + 1 >= self._left.get(partition, offset + 2):
            del self._left[partition]

    def trimmed(self, starts: Mapping[Partition, int]) -> None:
        """Records below need not be read: Kafka drops heartbeats by age, and the others were fed already."""
        self._left = {p: end for p, end in self._left.items() if end > starts.get(p, 0)}
