"""Records of a query with tentative results, as a read_committed reader gets them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from bench.rig.cluster import now_ms
from bench.rig.following import Following
from holdfast.newest import Newest
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.dataflow.sink_records import FINAL, TENTATIVE, RowsOf
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.protocol import Log, Message

POLL_S = 0.02


class Rows(Following):
    """Follows every partition of a topic in a thread of its own, from entering to leaving."""

    def __init__(self, log: Log, topic: str, ours: RowsOf, partitions: int = 1) -> None:
        super().__init__(log, "rows", [Partition(topic, index) for index in range(partitions)])
        self._ours = ours
        self._newest = Newest()
        self._told: dict[bytes | None, bytes | None] = {}
        self._final: dict[bytes | None, bytes | None] = {}
        self._counts = Counter[str]()
        self._tentative_ms: list[float] = []
        self._tentative: dict[bytes | None, bytes | None] = {}
        self._lock = threading.Lock()

    def _turn(self) -> None:
        with suppress(Retriable):  # Kafka is killed now and then
            for chunk in self._reader.poll(POLL_S):
                with self._lock:
                    for message in chunk.messages:
                        self._take(message, now_ms())

    def _take(self, message: Message, at_ms: float) -> None:
        key, value, headers = message.key(), message.value(), message.headers()
        if (status := self._ours.status(headers)) is None:
            return
        self._counts[status] += 1
        if (row := self._newest.read(key, value, headers)) is not None:
            self._told[key] = row.value
        if status == FINAL:
            self._final[key] = value
        elif status == TENTATIVE:
            self._tentative_ms.append(at_ms)
            self._tentative[key] = value

    # -- what they say ------------------------------------------------------------------------------------------------

    def first_after(self, at_ms: float) -> float | None:
        """Arrival time of the first tentative row since then."""
        with self._lock:
            return next((one for one in self._tentative_ms if one >= at_ms), None)

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of rows, by status."""
        with self._lock:
            return Counter(self._counts)

    @property
    def open(self) -> int:
        """Number of keys whose newest row is tentative."""
        with self._lock:
            return self._newest.open

    def accuracy(self) -> float | None:
        """Share of the final rows, of windows with tentative ones, that these held; None: there are none."""
        with self._lock:
            ends = {_window(value) for value in self._tentative.values()}
            true = {key: value for key, value in self._final.items() if _window(value) in ends}
            right = sum(self._tentative.get(key) == value for key, value in true.items())
            return right / len(true) if true else None

    def untrue(self) -> int:
        """Keys for which the reader has another row than the last final one."""
        with self._lock:
            told = {key: value for key, value in self._told.items() if value is not None}
            return sum(told.get(key) != self._final.get(key) for key in told.keys() | self._final.keys())


def _window(row: bytes | None) -> object:
    return msgspec.json.decode(row or b"{}").get("window_end")
