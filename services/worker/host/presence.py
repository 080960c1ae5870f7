"""Whether a unit runs, as heartbeats say: they are read only while somebody waits for a unit.

Source: PROTOCOL 3 and 10. A slow unit reports, whatever its batch takes: heartbeats have a thread of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from schemas.heartbeats import Heartbeat, decode
from schemas.topics import Partition
from services.hosting.blocking import Blocking
from services.kernel.logs.assigned import Assigned
from services.log.protocol import Chunk, Log
from services.worker.host.subscriptions import Subscriptions

SILENT_MS = 2_000.0
FORGOTTEN_MS = 10_000.0
"""Heartbeats are read no more when nobody has asked for so long."""


class Presence:
    """Of the units of one worker's jobs. Implements Subscriber.

    Args:
        partition: of heartbeats. assigned: who is to lead each unit.
    """

    def __init__(
        self, log: Log, asks: Blocking, control: Subscriptions, partition: Partition, assigned: Assigned
    ) -> None:
        self._log, self._asks, self._control, self._partition = log, asks, control, partition
        self._assigned = assigned
        self._asked_ms = -math.inf
        self._since_ms = math.inf
        self._opening = False
        self._now_ms = 0.0
        self._heard: dict[tuple[str, str, str], float] = {}

    def runs(self, unit: str, now_ms: float) -> bool:
        """Whether the copy that leads the unit is there, and has not failed; also while that is not known yet."""
        self._asked_ms = now_ms
        if self._since_ms == math.inf:
            self._open()
        if now_ms < self._since_ms + SILENT_MS:
            return True
        change = self._assigned.of(unit)
        leader = None if change is None else change.committer
        if leader is None:
            return False
        return now_ms - self._heard.get((leader.worker, leader.incarnation, unit), -math.inf) < SILENT_MS

    def turn(self, now_ms: float) -> None:
        """Reads no more heartbeats than somebody needs."""
        self._now_ms = now_ms
        if self._since_ms < math.inf and now_ms - self._asked_ms > FORGOTTEN_MS:
            self._control.remove(self, [self._partition])
            self._since_ms = math.inf
            self._heard.clear()

    def offer(self, chunk: Chunk) -> None:
        for message in chunk.messages:
            try:
                beat = decode(message.value() or b"")
            except msgspec.DecodeError:
                continue  # recovery refuses it, and says so
            if isinstance(beat, Heartbeat):
                for copy in beat.copies:
                    if copy.state != "failed":
                        self._heard[beat.worker, beat.incarnation, copy.unit] = self._now_ms

    def broken(self, cause: str, partition: Partition | None = None) -> None:
        """Begins again at the end."""
        self._since_ms = math.inf

    def _open(self) -> None:
        if not self._opening:
            self._opening = True
            self._asks.run(lambda: self._log.offsets([self._partition], "end"), self._opened)

    def _opened(self, ends: Mapping[Partition, int] | Exception) -> None:
        self._opening = False
        if not isinstance(ends, Exception):
            self._control.add(self, dict(ends))
            self._since_ms = self._now_ms
