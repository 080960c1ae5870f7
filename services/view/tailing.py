"""Tailing: the committed records of a topic from its start, to its present end, until nothing comes, or for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from schemas.topics import Partition
from services.kernel.errors import Retriable
from services.log.protocol import Chunk, Log, Message
from services.log.silence import Silence

_WAIT_S = 0.1
SILENT_S = 30.0
"""For so long Kafka may give nothing of what it says is there. The caller's time between two records does not count."""


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

    Raises:
        Retriable: nothing came for SILENT_S, and what was there at the call has not been read.
    """
    wanted = [Partition(topic, index) for index in range(partitions)]
    ends = log.offsets(wanted, "end")
    positions = log.offsets(wanted, "start")
    reader = log.reader("tail")
    try:
        reader.assign(positions)
        silence = Silence(clock)
        while True:
            reached = all(positions[partition] >= ends[partition] for partition in wanted)
            if reached:
                if until_idle_s is not None and silence.silent_s >= until_idle_s:
                    return
                if until_idle_s is None and not follow:
                    return
            elif not follow and silence.silent_s > SILENT_S:
                raise Retriable(f"{topic}: nothing came for {SILENT_S:g} s, and its end is not reached: try again")
            for chunk in silence.during(lambda: reader.poll(_WAIT_S), _has_records):
                for message in chunk.messages:
                    positions[chunk.partition] = message.offset() + 1
                    if follow or until_idle_s is not None or message.offset() < ends[chunk.partition]:
                        yield chunk.partition.index, message
                if chunk.end is not None:
                    positions[chunk.partition] = max(positions[chunk.partition], chunk.end)
    finally:
        reader.close()


def _has_records(chunks: list[Chunk]) -> bool:
    return any(chunk.messages for chunk in chunks)
