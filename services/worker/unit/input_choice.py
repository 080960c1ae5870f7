"""Selects the inputs of a copy that the data reader reads: all, none, or all except those too busy for a standby.

Source: PROTOCOL 5 and 8.
"""

from __future__ import annotations

import math

from holdfast.schemas.topics import Partition
from holdfast.services.worker.host.surroundings import Subscriber
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.turns.running_copy import RunningCopy

RETURN_MS = 10_000
"""Time for which a suspended copy stays away from an input that was too busy for it."""


class InputChoice:
    """The inputs of one copy, which is the subscriber.

    Attributes:
        return_ms: time to check for a return to inputs that were left.
    """

    def __init__(self, subscriber: Subscriber, unit: HostedUnit) -> None:
        self._subscriber = subscriber
        self._data = unit.around.data
        self._spent = unit.spent
        self._clock_ms = unit.around.clock_ms
        self._on = False
        self._silent: set[Partition] = set()
        self._began_ms = 0.0
        self._left: set[Partition] = set()
        self.return_ms = math.inf

    def place(self, running: RunningCopy, receive: bool) -> None:
        """Reads the inputs from the image's positions if the flags say so; otherwise connects to them.

        A consumer needs a request or two before it can read a topic for the first time (MECHANISMS H2, PROTOCOL 5).
        """
        before, self._on = self._on, receive
        if before and not receive:
            running.intake.let_go()
            self._data.remove(self._subscriber)
            self._silent.clear()
            self._stay()
        if not receive:
            self._data.connect(self._subscriber, running.intake.positions())
        elif not before:
            positions = running.intake.positions()
            self._silent, self._began_ms = set(positions), self._clock_ms()
            self._data.add(self._subscriber, positions)
            running.intake.rewired()
        elif not running.condition.suspended:
            self._return(running)

    def answered(self, partition: Partition) -> None:
        """Notes that an input has brought records, or its end."""
        if partition in self._silent:
            self._silent.discard(partition)
            if not self._silent:
                self._spent.receive_ms = self._clock_ms() - self._began_ms

    def turned(self, running: RunningCopy, now_ms: float) -> None:
        """Updates the inputs after a turn: partitions may have joined, changed their topic, or become too busy."""
        if self._on:
            self._rewire(running)
            if running.condition.suspended and (overfed := running.intake.overfed()):
                self._leave(overfed, now_ms)

    def look_back(self, running: RunningCopy, now_ms: float) -> None:
        """Returns to the inputs at `return_ms`, unless the copy still holds their records, because no checkpoint has
        come since."""
        if running.intake.overfed():
            self.return_ms = now_ms + RETURN_MS
        else:
            self._return(running)

    def close(self) -> None:
        """Ends all subscriptions of the copy."""
        self._data.remove(self._subscriber)
        self._data.disconnect(self._subscriber)
        self._silent.clear()
        self._on = False
        self._stay()

    def _rewire(self, running: RunningCopy) -> None:
        left, joined = running.intake.rewired()
        if left:
            self._data.remove(self._subscriber, left)
            self._left -= left
        if joined:  # nothing joins in nearly every turn
            self._data.add(self._subscriber, {p: at for p, at in joined.items() if p not in self._left})

    def _leave(self, overfed: set[Partition], now_ms: float) -> None:
        """Stops reading busy inputs. A suspended copy returns to them with the newest marker, or after a while."""
        if leaving := overfed - self._left:
            self._data.remove(self._subscriber, leaving)
            self._left |= leaving
            self.return_ms = now_ms + RETURN_MS

    def _return(self, running: RunningCopy) -> None:
        """Reads the inputs again that the copy left."""
        positions = running.intake.positions()
        back = {partition: positions[partition] for partition in self._left & positions.keys()}
        self._data.add(self._subscriber, back)
        self._stay()

    def _stay(self) -> None:
        self._left.clear()
        self.return_ms = math.inf
