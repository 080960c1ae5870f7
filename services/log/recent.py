"""Where a process that starts late begins to read heartbeats: near their end.

Source: PROTOCOL 1 and 5. The topic keeps minutes of them, and whoever must read all of those first decides nothing
meanwhile: with 36 units it took 10 s.
"""

from __future__ import annotations

import time

import structlog

from schemas.topics import Partition
from services.kernel.errors import Retriable
from services.log.kafka import KafkaLog
from services.log.opening import KafkaDoor

_log = structlog.get_logger()


def begin_recently(
    log: KafkaDoor | KafkaLog, group: str, heartbeats: Partition, history_ms: int
) -> dict[Partition, int]:
    """Lets a consumer group without members begin so long ago; where that is, for its backlog.

    Where Kafka does not answer the group reads all of them, and nothing is returned.
    """
    try:
        begins = log.offsets([heartbeats], int(time.time() * 1000) - history_ms)
        log.start_group(group, begins)
    except Retriable as error:
        _log.warning("all heartbeats are read", error=str(error))
        return {}
    return begins
