"""Rebuilds a unit's image from its checkpoint log. Runs beside the loop.

Source: PROTOCOL 6: scan to the end, start from an empty image, apply all valid runs from the base.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from schemas.checkpoints import CheckpointRecord, Marker, decode, unpack
from schemas.topics import Partition
from services.kernel.checkpoint_log import CheckpointLog, restore
from services.kernel.image import Image
from services.log.protocol import Log


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A restored image. next_offset: where to go on reading the checkpoint log."""

    log: CheckpointLog
    image: Image
    marker: Marker | None
    next_offset: int
    entries: int


def rebuild(log: Log, partition: Partition, image: Image) -> Rebuilt:
    """Applies the valid runs to the (empty) image.

    Raises:
        StateCorrupted: the log was trimmed under the scan: try again.
    """
    next_offset = 0

    def records() -> Iterator[tuple[int, CheckpointRecord]]:
        nonlocal next_offset
        for message in log.scan(partition):
            next_offset = message.offset() + 1
            with suppress(msgspec.DecodeError):  # what cannot be read is as invalid as a run that does not fit
                yield message.offset(), decode(message.value() or b"")

    folded, runs = restore(records())
    entries = 0
    for run in runs:
        for part in run.parts:
            unpacked = unpack(part.entries)
            image.apply(unpacked)
            entries += len(unpacked)
    return Rebuilt(folded, image, folded.last, next_offset, entries)
