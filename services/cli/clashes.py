"""Clashes: a supervisor does not start beside another one of the same host name, which would retire its workers.

Workers of one name are incarnations of one worker for everybody who reads `heartbeats`, and the newest counts. So names
are looked up there before the first worker starts.
"""

from __future__ import annotations

import time

import msgspec

from schemas import heartbeats
from schemas.heartbeats import Echo, Exit, Heartbeat
from schemas.topics import ClusterTopics, Partition
from services.cli.naming import Naming
from services.kernel.errors import HoldfastError
from services.log.protocol import Log

RECENT_MS = 60_000
RECENT_RECORDS = 2_000
"""Older heartbeats say nothing of who lives, nor of which incarnation was the last."""
LISTEN_S = 2.0
LISTEN_BEATS = 5
"""A worker that is heard of, but not in so long, is dead."""


class Clash(HoldfastError):
    """Another supervisor runs workers of these names."""

    def __init__(self, other: Heartbeat, host: str, pid: int, address: str) -> None:
        super().__init__(
            f"{other.worker} runs already, as process {other.pid} at {other.address or 'an unknown address'}, and this "
            f"is process {pid} at {address}: both call their host {host}. Set HOLDFAST_HOST to another name on one of "
            "them, or stop the other"
        )


class Neighbours:
    """Who has a name of ours, as heartbeats tell of them. incarnations: the newest, by worker."""

    def __init__(self, naming: Naming, address: str) -> None:
        self._naming, self._address = naming, address
        self.incarnations: dict[str, str] = {}
        self._strangers: dict[str, Heartbeat] = {}

    def read(self, value: bytes | None) -> Heartbeat | None:
        """Takes a record; what it holds, if that is a heartbeat of one of our names from another address."""
        try:
            record = heartbeats.decode(value or b"")
        except msgspec.DecodeError:
            return None
        if isinstance(record, Echo) or not self._naming.is_ours(record.worker):
            return None
        if isinstance(record, Exit):
            self._strangers.pop(record.incarnation, None)
            return None
        self.incarnations[record.worker] = max(record.incarnation, self.incarnations.get(record.worker, ""))
        if record.address == self._address:
            return None
        self._strangers[record.incarnation] = record
        return record

    @property
    def strangers(self) -> bool:
        """Somebody was heard at another address whose end nobody has told."""
        return bool(self._strangers)


def living_stranger(log: Log, topics: ClusterTopics, neighbours: Neighbours, beat_ms: int) -> Heartbeat | None:
    """Who has one of our names, at another address, and is alive. Raises Retriable."""
    partition = Partition(topics.heartbeats, 0)
    end = log.offsets([partition], "end")[partition]
    for message in log.scan(partition, _recently(log, partition, end)):
        neighbours.read(message.value())
    if not neighbours.strangers:
        return None
    begin = log.offsets([partition], "end")[partition]
    return _heard(log, partition, begin, neighbours, max(LISTEN_S, LISTEN_BEATS * beat_ms / 1000))


def _recently(log: Log, partition: Partition, end: int) -> int:
    """Where to begin: a minute ago, and never so late that clocks which differ could hide who lives."""
    since = log.offsets([partition], int(time.time() * 1000) - RECENT_MS)[partition]
    return max(log.offsets([partition], "start")[partition], min(since, end - RECENT_RECORDS))


def _heard(log: Log, partition: Partition, begin: int, neighbours: Neighbours, seconds: float) -> Heartbeat | None:
    """A stranger's heartbeat from that offset on."""
    reader = log.reader("clashes")
    reader.assign({partition: begin})
    deadline = time.monotonic() + seconds
    try:
        while (left := deadline - time.monotonic()) > 0:
            for chunk in reader.poll(min(left, 0.2)):
                for message in chunk.messages:
                    if (stranger := neighbours.read(message.value())) is not None:
                        return stranger
        return None
    finally:
        reader.close()
