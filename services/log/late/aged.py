"""Reading topics of which Kafka deletes old records by age while they are read."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import PositionGone, StateCorrupted
from holdfast.services.log.protocol import Chunk, Log, Reader


def poll_aged(reader: Reader, log: Log, aged: Collection[Partition], timeout_s: float) -> list[Chunk]:
    """Polls like `reader.poll`; where records are gone, continues at the start of `aged`: they no longer matter.

    Args:
        aged: partitions whose records are deleted by age. Of another one they were trimmed to a snapshot.

    Raises PositionGone for another one: its reader does not know what it missed, and is to start again.
    """
    try:
        return reader.poll(timeout_s)
    except StateCorrupted as error:
        if isinstance(error, PositionGone) and error.partition not in aged:
            raise
        reader.assign(log.offsets(aged, "start"))
        return []
