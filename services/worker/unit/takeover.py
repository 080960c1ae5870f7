"""How long a copy takes to lead its unit: the phases in the worker's event `unit-active`.

Source: MECHANISMS section 1 (detection, activation or redeployment, replay), PROTOCOL 13.
"""

from __future__ import annotations

from typing import Protocol


class Working(Protocol):
    """A copy at work. out: what has left it so far, such as its transactions; it only grows."""

    @property
    def out(self) -> int: ...
    @property
    def busy(self) -> bool: ...


class Takeover:
    """From the assignment that made the copy the leader to its first output. Times are milliseconds of one clock.

    activation: until it works on the state it needs. replay: from there until no batch waits for it. first_output: from
    the assignment until something of its own is acknowledged by Kafka, or committed; without input that takes its time.
    """

    def __init__(self, placed_ms: float) -> None:
        self.placed_ms = placed_ms
        self._running_ms: float | None = None
        self._out = 0
        self.phases: dict[str, float] = {}

    def look(self, working: Working, now_ms: float) -> bool:
        """In every turn in which it has its state; True once every phase is over."""
        if self._running_ms is None:
            self._running_ms, self._out = now_ms, working.out
            self.phases["activation"] = round(now_ms - self.placed_ms, 1)
        if "replay" not in self.phases and not working.busy:
            self.phases["replay"] = round(now_ms - self._running_ms, 1)
        if "first_output" not in self.phases and working.out > self._out:
            self.phases["first_output"] = round(now_ms - self.placed_ms, 1)
        return len(self.phases) == 3
