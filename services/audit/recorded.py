"""Recorded: partitions read side by side, once, to ends that are known before, with little of them in memory.

A scan (`Log.scan`) is for what is read at one go: this waits as long as its caller likes between two records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from holdfast.schemas.topics import Partition
from holdfast.services.log.late.expecting import Expecting
from holdfast.services.log.protocol import Chunk, Log, Message

MAX_BUFFERED = 100_000
"""Records of a partition that are fetched before they are asked for; then it is paused."""
_WAIT_S = 0.1


class Recorded:
    """Records of each partition between two offsets.

    Args:
        name: of the reader.
        positions: where each partition begins.
        ends: behind its last record of interest.
    """

    def __init__(self, log: Log, name: str, positions: Mapping[Partition, int], ends: Mapping[Partition, int]) -> None:
        self._reader = log.reader(name)
        self._expecting = Expecting(log, self._reader)
        self._fetched = dict(positions)
        self._ends = dict(ends)
        self._buffers: dict[Partition, deque[Message]] = {partition: deque() for partition in positions}
        self._paused: set[Partition] = set()
        self._reader.assign({p: offset for p, offset in positions.items() if offset < self._ends[p]})

    def close(self) -> None:
        self._reader.close()

    def next(self, partition: Partition) -> Message | None:
        """The next record, which stays the next one until it is taken; None at the end.

        Raises:
            StateCorrupted: the log was trimmed above the position. Retriable: what is there does not come.
        """
        buffer = self._buffers[partition]
        while not buffer and self._fetched[partition] < self._ends[partition]:
            self._fetch(partition)
        return buffer[0] if buffer else None

    def take(self, partition: Partition) -> Message:
        """The next record, which `next` has announced."""
        return self._buffers[partition].popleft()

    def below(self, partition: Partition, stop: int) -> list[Message]:
        """Takes every record below offset `stop`."""
        taken: list[Message] = []
        while (message := self.next(partition)) is not None and message.offset() < stop:
            taken.append(self.take(partition))
        return taken

    def _fetch(self, wanted: Partition) -> None:
        """Polls until something of the partition came."""
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
