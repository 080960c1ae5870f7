"""What the contract's tests write to a log, and what a reader of it has given."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.protocol import Chunk, Log, Message, Reader

DEADLINE_S = 60.0
TRIES = 4
"""A busy machine may hold up any one call. One that waits where it must not is never quick: one quick call is proof."""
QUIET_S = 0.3
"""For how long nothing must come where nothing may come; on a log that gives what it has within milliseconds."""


class Collector:
    """What a reader gave, by partition; checks that each chunk is current and in order."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.records: dict[Partition, list[Message]] = defaultdict(list)
        self.ends: dict[Partition, list[int]] = defaultdict(list)

    def turn(self, timeout_s: float = 0.02) -> list[Chunk]:
        chunks = self.reader.poll(timeout_s)
        for chunk in chunks:
            assert self.reader.current(chunk)
            self.records[chunk.partition] += chunk.messages
            if chunk.end is not None:
                self.ends[chunk.partition].append(chunk.end)
        return chunks

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"not in time; read: {self.records}, ends: {self.ends}"
            self.turn()

    def nothing_comes(self) -> None:
        until = time.monotonic() + QUIET_S
        while time.monotonic() < until:
            assert not any(chunk.messages for chunk in self.turn())

    def values(self, partition: Partition) -> list[bytes | None]:
        return [m.value() for m in self.records[partition]]

    def offsets(self, partition: Partition) -> list[int]:
        return [m.offset() for m in self.records[partition]]


def new_topic(log: Log, partitions: int = 1, **config: str) -> str:
    name = f"contract-{uuid.uuid4().hex[:12]}"
    log.create([TopicSpec(name, partitions, {k.replace("_", "."): v for k, v in config.items()})])
    return name


def new_partition(log: Log) -> Partition:
    return Partition(new_topic(log), 0)


def new_partition_of_old(log: Log) -> Partition:
    """Keeps records of 1970, which a broker that happens to look would take away."""
    return Partition(new_topic(log, retention_ms="-1"), 0)


def fill(log: Log, partition: Partition, *values: bytes | None) -> None:
    appender = log.appender("fill")
    for value in values:
        appender.append(partition, value)
    appender.flush(DEADLINE_S)
    appender.close()


def numbers(count: int, begin: int = 0) -> list[bytes]:
    return [str(n).encode() for n in range(begin, begin + count)]


def scanned(log: Log, partition: Partition, start: int | None = None) -> list[bytes | None]:
    return [m.value() for m in log.scan(partition, start)]


def expect_scanned(log: Log, partition: Partition, *values: bytes | None) -> None:
    """Scans until the values are there: a commit is decided before it can be seen."""
    deadline = time.monotonic() + DEADLINE_S
    while (found := scanned(log, partition)) != list(values):
        assert time.monotonic() < deadline, f"{found} instead of {values}"


def expect_error(reader: Reader, error: type[Exception]) -> str:
    """Polls until the error is raised."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            reader.poll(0.02)
        except error as raised:
            return str(raised)
    raise AssertionError(f"no {error.__name__} in time")
