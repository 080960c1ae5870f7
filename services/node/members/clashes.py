"""Clashes: a supervisor does not start beside another one of the same host name, which would retire its workers.

Workers of one name count as incarnations of one worker for every reader of `heartbeats`, and only the newest counts. So
a supervisor reads the names there, and claims them, before the first worker starts: of two supervisors that start
together, the first claim in the log wins.
"""

from __future__ import annotations

import time

import msgspec

from holdfast.schemas import heartbeats
from holdfast.schemas.heartbeats import Echo, Exit, Heartbeat
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.log.protocol import Log
from holdfast.services.node.members.naming import Naming

RECENT_MS = 60_000
RECENT_RECORDS = 2_000
"""Number of heartbeats read; older ones show neither live workers nor their last incarnations."""
CLAIM_MS = 30_000
"""Milliseconds for which a claim alone counts; after them, a live process of that name has sent heartbeats."""
LISTEN_S = 2.0
NEVER = "0"
LISTEN_BEATS = 5
"""Number of heartbeats without which a known worker counts as dead."""


class Clash(HoldfastError):
    """Another supervisor runs workers of these names; the message names its address."""

    def __init__(self, what: str, host: str, pid: int, address: str) -> None:
        super().__init__(
            f"{what}, and this is process {pid} at {address}: both call their host {host}. Set HOLDFAST_HOST to "
            "another name on one of them, or stop the other"
        )


def running_at(other: Heartbeat) -> str:
    return f"{other.worker} runs already, as process {other.pid} at {other.address or 'an unknown address'}"


def claim(worker: str, address: str, time_ms: int, *, back: bool = False) -> Exit:
    """The exit notice of an incarnation that never ran, which claims the name; with `back` it withdraws the claim."""
    return Exit(worker, NEVER, time_ms, int(back), address=address)


class Neighbours:
    """The processes with names of this host, by their heartbeats.

    incarnations: the newest incarnation, by worker.
    """

    def __init__(self, naming: Naming, address: str) -> None:
        self._naming = naming
        self._address = address
        self.incarnations: dict[str, str] = {}
        self._strangers: dict[str, Heartbeat] = {}
        self._claims: dict[str, int] = {}

    def read(self, value: bytes | None) -> Heartbeat | None:
        """Reads a record of `heartbeats`; returns a heartbeat of one of the own names from
        another address, else None.
        """
        try:
            record = heartbeats.decode(value or b"")
        except msgspec.DecodeError:
            return None
        if isinstance(record, Echo) or not self._naming.is_ours(record.worker):
            return None
        if isinstance(record, Exit):
            self._strangers.pop(record.incarnation, None)
            self._claim(record)
            return None
        self.incarnations[record.worker] = max(record.incarnation, self.incarnations.get(record.worker, ""))
        if record.address == self._address:
            return None
        self._strangers[record.incarnation] = record
        return record

    def _claim(self, notice: Exit) -> None:
        """A claim that is renewed in time keeps its place."""
        if notice.incarnation != NEVER or not notice.address:
            return
        former_ms = self._claims.get(notice.address)
        if notice.status or (former_ms is not None and not _counts(former_ms, notice.time_ms)):
            self._claims.pop(notice.address, None)
        if not notice.status:
            self._claims[notice.address] = notice.time_ms

    def holder(self, now_ms: int) -> str:
        """The address of the first claim to the names that counts; empty if there is none."""
        return next((address for address, time_ms in self._claims.items() if _counts(time_ms, now_ms)), "")

    @property
    def strangers(self) -> bool:
        """True if a worker of these names has a heartbeat from another address, and no exit notice."""
        return bool(self._strangers)


def living_stranger(log: Log, topics: ClusterTopics, neighbours: Neighbours, beat_ms: int) -> Heartbeat | None:
    """The live process at another address with one of this host's names. Raises Retriable."""
    partition = Partition(topics.heartbeats, 0)
    look_around(log, topics, neighbours)
    if not neighbours.strangers:
        return None
    begin = log.offsets([partition], "end")[partition]
    return _heard(log, partition, begin, neighbours, max(LISTEN_S, LISTEN_BEATS * beat_ms / 1000))


def look_around(log: Log, topics: ClusterTopics, neighbours: Neighbours) -> None:
    """Feeds the recent heartbeats to the neighbours. Raises Retriable."""
    partition = Partition(topics.heartbeats, 0)
    end = log.offsets([partition], "end")[partition]
    for message in log.scan(partition, _recently(log, partition, end)):
        neighbours.read(message.value())


def _recently(log: Log, partition: Partition, end: int) -> int:
    """Offset at which to begin: a minute ago, and never so late that clocks which differ could hide who lives."""
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


def _counts(claimed_ms: int, now_ms: int) -> bool:
    """True if the claim is recent enough to count. If clocks differ by more, heartbeats show the live supervisor."""
    return abs(now_ms - claimed_ms) < CLAIM_MS
