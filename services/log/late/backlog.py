"""Backlog of a process: the records that were in its topics when it started and are not read yet.

Source: PROTOCOL 0: a controller acts only once it has read the logs up to their ends at its start.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Log


class Backlog:
    """The partitions that are not yet read to their end at the time of the start."""

    def __init__(self, starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> None:
        self._left = {partition: end for partition, end in ends.items() if end > starts[partition]}

    @classmethod
    def of(cls, log: Log, begins: Mapping[Partition, int]) -> Backlog:
        """The backlog as of now of a process that reads from these offsets."""
        return cls(begins, log.offsets(begins, "end"))

    @property
    def left(self) -> list[Partition]:
        return list(self._left)

    def read(self, partition: Partition, offset: int) -> None:
        """Notes that the record at this offset was read."""
        if offset + 1 >= self._left.get(partition, offset + 2):
            del self._left[partition]

    def trimmed(self, starts: Mapping[Partition, int]) -> None:
        """Drops records below the starts from the backlog: heartbeats were deleted by age, and the others were fed
        already.
        """
        self._left = {p: end for p, end in self._left.items() if end > starts.get(p, 0)}
