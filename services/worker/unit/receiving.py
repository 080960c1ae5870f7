"""Which inputs of a copy the worker's data reader reads: all, none, or all but those that are too busy for a standby.

Source: PROTOCOL 5 and 8.
"""

from __future__ import annotations

import math

from schemas.topics import Partition
from services.worker.host.surroundings import Subscriber, Subscriptions
from services.worker.unit.running import Running

RETURN_MS = 10_000
"""For so long a suspended copy stays away from an input that was too busy for it."""


class Receiving:
    """Of one copy, which is the subscriber. return_ms: when to look whether it can go back to what it has left."""

    def __init__(self, subscriber: Subscriber, data: Subscriptions) -> None:
        self._subscriber, self._data = subscriber, data
        self._on = False
        self._left: set[Partition] = set()
        self.return_ms = math.inf

    def place(self, running: Running, receive: bool) -> None:
        """Reads the inputs if the flags say so; they count from where the image stands."""
        before, self._on = self._on, receive
        if before and not receive:
            running.intake.let_go()
            self._data.remove(self._subscriber)
            self._stay()
        elif receive and not before:
            self._data.add(self._subscriber, running.intake.positions())
            running.intake.rewired()
        elif not running.suspended:
            self._return(running)

    def turned(self, running: Running, now_ms: float) -> None:
        """After a turn: partitions may have joined, be of another topic, or be too busy."""
        if self._on:
            self._rewire(running)
            self._leave(running.overfed(), now_ms)

    def look_back(self, running: Running, now_ms: float) -> None:
        """Once it is time: returns, unless it still holds what it left with. Then no checkpoint has come since."""
        if now_ms < self.return_ms:
            return
        if running.overfed():
            self.return_ms = now_ms + RETURN_MS
        else:
            self._return(running)

    def close(self) -> None:
        """The copy reads nothing any more."""
        self._data.remove(self._subscriber)
        self._on = False
        self._stay()

    def _rewire(self, running: Running) -> None:
        left, joined = running.intake.rewired()
        if left:
            self._data.remove(self._subscriber, left)
            self._left -= left
        if joined:  # nothing joins in nearly every turn
            self._data.add(self._subscriber, joined)

    def _leave(self, overfed: set[Partition], now_ms: float) -> None:
        """A suspended copy stops reading them: it resumes from the newest marker, or after a while."""
        if leaving := overfed - self._left:
            self._data.remove(self._subscriber, leaving)
            self._left |= leaving
            self.return_ms = now_ms + RETURN_MS

    def _return(self, running: Running) -> None:
        """To the inputs that it left."""
        positions = running.intake.positions()
        back = {partition: positions[partition] for partition in self._left & positions.keys()}
        self._data.add(self._subscriber, back)
        self._stay()

    def _stay(self) -> None:
        self._left.clear()
        self.return_ms = math.inf
