"""Reads of topics whose old records Kafka deletes by age meanwhile."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import PositionGone, StateCorrupted
from holdfast.services.log.protocol import Chunk, Log, Reader


def poll_aged(reader: Reader, log: Log, aged: Collection[Partition], timeout_s: float) -> list[Chunk]:
    """Polls as `reader.poll`; where records were deleted by age, reading continues at the start of `aged`.

    Records that are deleted by age no longer matter.

    Args:
        aged: partitions whose records are deleted by age. Records of other partitions are trimmed to a snapshot.

    Raises PositionGone for another partition: its reader has missed records that it cannot name, and must start again.
    """
    try:
        return reader.poll(timeout_s)
    except StateCorrupted as error:
        if isinstance(error, PositionGone) and error.partition not in aged:
            raise
        reader.assign(log.offsets(aged, "start"))
        return []
