"""Phases of a copy's takeover of its unit, in the worker's event `unit-active`.

Source: MECHANISMS section 1 (detection, activation or redeployment, replay) and P13, PROTOCOL 13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

GIVEN_UP_MS = 60_000.0
"""A phase that has not ended so long after the copy had its state, while no batch waits, is left out, as when nobody
can reach the batch that progress names."""


class TakeoverOwner(Protocol):
    """A copy at work. began: the batch of the image that it began with. batch: the last one done. out: the last
    batch of which all that it brings has left, rows committed and frames acknowledged.
    """

    @property
    def began(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def out(self) -> int: ...
    @property
    def busy(self) -> bool: ...


class Takeover:
    """From the assignment that made the copy the leader to its first output. Times are milliseconds of one clock.

    activation: until it works on the state it needs. replay: from there until it has done what the unit had processed
    before, as far as anybody knows. first_output: from the assignment until the first batch that this copy does as the
    leader is out. A batch may bring no row, as when a window is open: it is out once the copy could have delivered
    one. Without input a batch comes after 4 s at the most.
    recovered: from the assignment until all that it replays is out: by this copy or the one before it (MECHANISMS P13).

    Args:
        reached: the batch that the copy had done then; 0: it had no state.
        before: the newest batch that the unit is known to have processed; asked until the copy works on its state.
    """

    def __init__(self, placed_ms: float, reached: int = 0, before: Callable[[], int] = lambda: 0) -> None:
        self.placed_ms, self._reached, self._before = placed_ms, reached, before
        self._running_ms: float | None = None
        self._target = max(before(), reached)
        self.phases: dict[str, float] = {}

    def again(self) -> Takeover:
        """The copy lost its state on the way."""
        return Takeover(self.placed_ms, before=lambda: self._target)

    def look(self, working: TakeoverOwner, now_ms: float) -> bool:
        """In every turn in which it has its state; True once every phase is over."""
        if self._running_ms is None:
            self._running_ms = now_ms
            self._target = max(self._target, self._before())
            self.phases["activation"] = round(now_ms - self.placed_ms, 1)
        if "replay" not in self.phases and working.batch >= self._target:
            self.phases["replay"] = round(now_ms - self._running_ms, 1)
        if "first_output" not in self.phases and working.out > max(self._reached, working.began):
            self.phases["first_output"] = round(now_ms - self.placed_ms, 1)
        if "recovered" not in self.phases and working.out >= max(self._target, 1):
            self.phases["recovered"] = round(now_ms - self.placed_ms, 1)
        given_up = not working.busy and now_ms - self._running_ms >= GIVEN_UP_MS
        return len(self.phases) == 4 or given_up
