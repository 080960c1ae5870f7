"""Notices: reports to the cluster at once that a worker's process has ended, naming the incarnation.

Source: PROTOCOL 5: a crash is known in 10 ms, long before heartbeats are missed. So the connection is up in advance.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from holdfast.schemas import events, heartbeats
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import At, Exit
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.log.protocol import Log
from holdfast.services.node.members.clashes import claim

CLAIM_S = 5.0


class Notices:
    """May be used from any thread."""

    def __init__(self, log: Log, topics: ClusterTopics) -> None:
        self._appender = log.appender("notices")
        self._heartbeats = Partition(topics.heartbeats, 0)
        self._events = Partition(topics.events, 0)
        self._lock = threading.Lock()

    def warm_up(self, former: Mapping[str, str]) -> None:
        """Connects, and reports the start of the cluster and the end of the former incarnations, by worker. Raises
        Retriable.
        """
        self.report("cluster-started")
        for worker, incarnation in former.items():
            self.ended(worker, incarnation, 0)
        with self._lock:
            self._appender.flush(5.0)

    def ended(self, worker: str, incarnation: str, status: int, at: tuple[At, ...] = (), dying: bool = False) -> None:
        """Reports the end of a worker's process.

        at: batches that the process worked on.
        dying: true while it has no status yet.
        """
        notice = Exit(worker, incarnation, _now_ms(), status, at=at, dying=dying)
        self._append(self._heartbeats, heartbeats.encode(notice))
        if at and not dying:
            self.report("worker-crashed", worker, f"status {status}, at {', '.join(map(str, at))}")

    def claim(self, worker: str, address: str, *, back: bool = False) -> None:
        """Appends a claim, and waits until it is in the log; with `back` withdraws it
        without a wait. Raises Retriable.
        """
        self._append(self._heartbeats, heartbeats.encode(claim(worker, address, _now_ms(), back=back)))
        if not back:
            with self._lock:
                self._appender.flush(CLAIM_S)

    def report(self, kind: str, worker: str = "", detail: str = "") -> None:
        self._append(self._events, events.encode(Event(_now_ms(), kind, worker=worker, detail=detail)))

    def close(self) -> None:
        with self._lock:
            self._appender.close()

    def _append(self, partition: Partition, value: bytes) -> None:
        with self._lock:
            self._appender.append(partition, value)
            self._appender.poll()


def _now_ms() -> int:
    return int(time.time() * 1000)
