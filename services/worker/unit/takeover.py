"""How long a copy takes to lead its unit: the phases in the worker's event `unit-active`.

Source: MECHANISMS section 1 (detection, activation or redeployment, replay), PROTOCOL 13.
"""

from __future__ import annotations

from typing import Protocol


class Working(Protocol):
    """A copy at work. began: the batch of the image that it began with. out: the last batch of which all that it brings
    has left, rows committed and frames acknowledged.
    """

    @property
    def began(self) -> int: ...
    @property
    def out(self) -> int: ...
    @property
    def busy(self) -> bool: ...


class Takeover:
    """From the assignment that made the copy the leader to its first output. Times are milliseconds of one clock.

    activation: until it works on the state it needs. replay: from there until no batch waits for it. first_output: from
    the assignment until the first batch that this copy does as the leader is out. A batch may bring no row, as when a
    window is open: it is out once the copy could have delivered one. Without input a batch comes after 4 s at the most.

    Args:
        reached: the batch that the copy had done then; 0: it had no state.
    """

    def __init__(self, placed_ms: float, reached: int = 0) -> None:
        self.placed_ms, self._reached = placed_ms, reached
        self._running_ms: float | None = None
        self.phases: dict[str, float] = {}

    def look(self, working: Working, now_ms: float) -> bool:
        """In every turn in which it has its state; True once every phase is over."""
        if self._running_ms is None:
            self._running_ms = now_ms
            self.phases["activation"] = round(now_ms - self.placed_ms, 1)
        if "replay" not in self.phases and not working.busy:
            self.phases["replay"] = round(now_ms - self._running_ms, 1)
        if "first_output" not in self.phases and working.out > max(self._reached, working.began):
            self.phases["first_output"] = round(now_ms - self.placed_ms, 1)
        return len(self.phases) == 3
