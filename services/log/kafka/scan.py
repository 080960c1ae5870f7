"""Scans: read a stretch of a partition up to a known end, with readers that stay connected for the next scan.

Source: PROTOCOL 9: a takeover reads one position and has no time to connect first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from holdfast.schemas.topics import Partition
from holdfast.services.log.kafka.client import ANSWER_S, Cluster
from holdfast.services.log.kafka.reader import KafkaReader
from holdfast.services.log.protocol import Message
from holdfast.services.log.silence import Silence

_WAIT_S = 0.1
_HOLD_MS = 1
_KEPT = 4


class Scanner:
    """Reads stretches for any number of threads at once, each with a reader of its own."""

    def __init__(self, cluster: Cluster, name: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock_s = clock_s
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[KafkaReader] = []

    def scan(self, partition: Partition, begin: int, end: int) -> Iterator[Message]:
        """The committed records in [begin, end); begin is in the log, end at most the last stable offset.

        Raises:
            StateCorrupted: the log was trimmed above the position.
            Retriable: no record came for 4 s.
        """
        if begin >= end:
            return
        reader = self._take()
        try:
            reader.assign({partition: begin})
            yield from self._read(reader, partition, end)
            reader.unassign([partition])
        except BaseException:  # GeneratorExit comes if the caller stops early
            reader.close()
            raise
        self._give_back(reader)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()

    def _read(self, reader: KafkaReader, partition: Partition, end: int) -> Iterator[Message]:
        """Records below `end`; stops at a record or an end at or behind it, because transaction markers take offsets
        too.

        Only waits of this reader without an answer count for the time-out, not the caller's work between two records.
        """
        silence = Silence(self._clock_s)
        while silence.silent_s <= ANSWER_S:
            for chunk in silence.during(lambda: reader.poll(_WAIT_S)):
                messages = chunk.messages
                if messages and messages[-1].offset() >= end - 1:
                    yield from (m for m in messages if m.offset() < end)
                    return
                yield from messages
                if chunk.end is not None and chunk.end >= end:
                    return
        raise self._cluster.unanswered(f"read {partition} up to {end}", f"nothing came for {ANSWER_S:g} s")

    def _take(self) -> KafkaReader:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return KafkaReader(self._cluster, f"{self._name}-scan", _HOLD_MS)

    def _give_back(self, reader: KafkaReader) -> None:
        with self._lock:
            if len(self._idle) < _KEPT:
                self._idle.append(reader)
                return
        reader.close()
