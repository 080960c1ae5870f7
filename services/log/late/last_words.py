"""The last record of each key, found from the end of a topic, so that no reader starts at its beginning.

Source: PROTOCOL 1, `<job>.<g>.progress`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Log

FIRST_STRETCH = 256


def last_words(log: Log, partition: Partition, keys: Collection[str]) -> Iterator[bytes | None]:
    """Values of ever larger stretches from the end, each in the log's order, until every key has occurred."""
    first, end = (log.offsets([partition], at)[partition] for at in ("start", "end"))
    missing, stretch, begin = set(keys), FIRST_STRETCH, end
    while missing and begin > first:
        begin = max(first, end - stretch)
        for message in log.scan(partition, begin):
            missing.discard((message.key() or b"").decode(errors="replace"))
            yield message.value()
        stretch *= 4
