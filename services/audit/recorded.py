"""Recorded: partitions read side by side, once, up to known ends, with few records in memory.

A scan (`Log.scan`) is for reads at one go: here the caller may take any time between two records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from holdfast.schemas.topics import Partition
from holdfast.services.log.late.expected_records import ExpectedRecords
from holdfast.services.log.protocol import Chunk, Log, Message

MAX_BUFFERED = 100_000
"""Number of records of a partition that are fetched in advance; then the partition is paused."""
_WAIT_S = 0.1


class Recorded:
    """Records of each partition between two offsets.

    Args:
        name: name of the reader.
        positions: first offset of each partition.
        ends: offset behind the last record needed, by partition.
    """

    def __init__(self, log: Log, name: str, positions: Mapping[Partition, int], ends: Mapping[Partition, int]) -> None:
        self._reader = log.reader(name)
        self._expecting = ExpectedRecords(log, self._reader)
        self._fetched = dict(positions)
        self._ends = dict(ends)
        self._buffers: dict[Partition, deque[Message]] = {partition: deque() for partition in positions}
        self._paused: set[Partition] = set()
        self._reader.assign({p: offset for p, offset in positions.items() if offset < self._ends[p]})

    def close(self) -> None:
        self._reader.close()

    def next(self, partition: Partition) -> Message | None:
        """The next record, which stays the next one until `take`; None at the end.

        Raises:
            StateCorrupted: the log was trimmed above the position.
            Retriable: existing records do not arrive.
        """
        buffer = self._buffers[partition]
        while not buffer and self._fetched[partition] < self._ends[partition]:
            self._fetch(partition)
        return buffer[0] if buffer else None

    def take(self, partition: Partition) -> Message:
        """Takes the record that `next` has returned."""
        return self._buffers[partition].popleft()

    def below(self, partition: Partition, stop: int) -> list[Message]:
        """Takes every record below offset `stop`."""
        taken: list[Message] = []
        while (message := self.next(partition)) is not None and message.offset() < stop:
            taken.append(self.take(partition))
        return taken

    def _fetch(self, wanted: Partition) -> None:
        """Polls until a record or the end of the partition comes."""
        before = self._fetched[wanted]
        self._let_in(wanted)
        while self._fetched[wanted] == before:
            for chunk in self._expecting.poll((wanted,), _WAIT_S):
                self._read(chunk)

    def _let_in(self, wanted: Partition) -> None:
        freed = [p for p in self._paused if p == wanted or len(self._buffers[p]) < MAX_BUFFERED // 2]
        self._paused.difference_update(freed)
        self._reader.resume(freed)

    def _read(self, chunk: Chunk) -> None:
        partition = chunk.partition
        if not self._reader.current(chunk):
            return
        end, buffer = self._ends[partition], self._buffers[partition]
        buffer.extend(message for message in chunk.messages if message.offset() < end)
        if chunk.messages:
            self._fetched[partition] = chunk.messages[-1].offset() + 1
        if chunk.end is not None:
            self._fetched[partition] = max(self._fetched[partition], chunk.end)
        if self._fetched[partition] >= end:
            self._reader.unassign([partition])
        elif len(buffer) >= MAX_BUFFERED and partition not in self._paused:
            self._paused.add(partition)
            self._reader.pause([partition])
