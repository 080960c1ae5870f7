"""The committed records of topics from their start: to their present end, until silence, or forever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from holdfast.schemas.topics import Partition
from holdfast.services.log.late.expected_records import ExpectedRecords
from holdfast.services.log.protocol import Chunk, Log, Message
from holdfast.services.log.silence import Silence

_WAIT_S = 0.1


def read_topic(
    log: Log,
    topic: str,
    partitions: int,
    *,
    follow: bool = False,
    until_idle_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[int, Message]]:
    """(partition, record) of one topic. See read_topics."""
    found = read_topics(log, {topic: partitions}, follow=follow, until_idle_s=until_idle_s, clock=clock)
    return ((partition.index, message) for partition, message in found)


def read_topics(
    log: Log,
    topics: Mapping[str, int],
    *,
    follow: bool = False,
    until_idle_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[Partition, Message]]:
    """(partition, record) in the order of each partition, up to the ends at the time of the call.

    Args:
        topics: number of partitions, by topic.
        follow: true to read forever.
        until_idle_s: seconds without a record after which reading stops, once all records present at the call were
            read; takes precedence over `follow`.

    Raises:
        Retriable: records present at the call do not arrive.
    """
    wanted = [Partition(topic, index) for topic, partitions in topics.items() for index in range(partitions)]
    ends = log.offsets(wanted, "end")
    positions = log.offsets(wanted, "start")
    reader = log.reader("tail")
    try:
        reader.assign(positions)
        silence, expecting = Silence(clock), ExpectedRecords(log, reader, clock)
        while True:
            missing = [partition for partition in wanted if positions[partition] < ends[partition]]
            if not missing:
                if until_idle_s is not None and silence.silent_s >= until_idle_s:
                    return
                if until_idle_s is None and not follow:
                    return
            for chunk in silence.during(lambda: expecting.poll(missing, _WAIT_S), _has_records):  # noqa: B023
                for message in chunk.messages:
                    positions[chunk.partition] = message.offset() + 1
                    if follow or until_idle_s is not None or message.offset() < ends[chunk.partition]:
                        yield chunk.partition, message
                if chunk.end is not None:
                    positions[chunk.partition] = max(positions[chunk.partition], chunk.end)
    finally:
        reader.close()


def _has_records(chunks: list[Chunk]) -> bool:
    return any(chunk.messages for chunk in chunks)
