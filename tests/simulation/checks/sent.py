"""Frames and positions of sinks: what was sent stays as it was, and positions go up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from holdfast.schemas import delivered
from holdfast.schemas.frames import FLAG_TENTATIVE, unpack
from holdfast.schemas.topics import Partition
from tests.simulation.kafka.broker import Written


def same_frames(written: list[Written]) -> Iterator[str]:
    """Invariant 3: two frames of the same writer, batch and part on a partition are the same."""
    known: dict[tuple[Partition, int, int, int], tuple[int, int, int]] = {}
    for one in written:
        if ".data." in one.partition.topic:
            header = unpack(one.value)
            if header.flags & FLAG_TENTATIVE:
                continue
            key = (one.partition, header.writer, header.batch, header.part)
            said = (header.payload_hash, header.parts, header.watermark)
            if known.setdefault(key, said) != said:
                yield f"divergence: {one.author} sent batch {header.batch} of writer {header.writer} to {one.partition}"


def rising_positions(written: list[Written]) -> Iterator[str]:
    """Invariants 4 and 5: a unit's delivered position only goes up."""
    last: dict[Partition, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for one in written:
        if one.partition.topic.endswith(".delivered"):
            at = delivered.decode(one.value).order
            if at <= last[one.partition]:
                yield f"delivered: {one.author} committed {at} of {one.partition} behind {last[one.partition]}"
            last[one.partition] = at
