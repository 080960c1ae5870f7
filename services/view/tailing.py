"""Tailing: the committed records of a topic from its start, to its present end, until nothing comes, or for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from schemas.topics import Partition
from services.log.protocol import Log, Message

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
    """(partition, record) in the order of each partition.

    Args:
        follow: for ever. until_idle_s: until nothing came for so long, and what was there at the call has;
            it goes before `follow`. Without either, the end is where each partition ended at the call.
    """
    wanted = [Partition(topic, index) for index in range(partitions)]
    ends = log.offsets(wanted, "end")
    positions = log.offsets(wanted, "start")
    reader = log.reader("tail")
    try:
        reader.assign(positions)
        last = clock()
        while True:
            if all(positions[partition] >= ends[partition] for partition in wanted):
                if until_idle_s is not None and clock() - last >= until_idle_s:
                    return
                if until_idle_s is None and not follow:
                    return
            for chunk in reader.poll(_WAIT_S):
                for message in chunk.messages:
                    positions[chunk.partition] = message.offset() + 1
                    if follow or until_idle_s is not None or message.offset() < ends[chunk.partition]:
                        yield chunk.partition.index, message
                last = clock() if chunk.messages else last
                if chunk.end is not None:
                    positions[chunk.partition] = max(positions[chunk.partition], chunk.end)
    finally:
        reader.close()
