"""The phases of a copy's takeover, for the worker's event `unit-active`.

Source: MECHANISMS section 1 (detection, activation or redeployment, replay) and P13, PROTOCOL 13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

GIVEN_UP_MS = 60_000.0
"""Time after the copy got its state at which an unfinished phase is left out if no batch waits, for example because no
copy can reach the batch in the published progress."""


class TakeoverOwner(Protocol):
    """A copy at work.

    Attributes:
        began: batch of the image from which it began.
        batch: last batch done.
        out: last batch whose output is completely sent, with rows committed and frames acknowledged.
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
    """A takeover, from the assignment that made the copy the leader to its first output. Times are clock milliseconds.

    Phases:
        activation: from the assignment until the copy works on the state it needs.
        replay: from then until it has done every batch that the unit is known to have processed before.
        first_output: from the assignment until the first batch by this leader is out. A batch without rows counts when
            the copy could have delivered rows. Without input a batch comes after at most 4 s.
        recovered: from the assignment until all repeated batches are out, by this copy or the former one (MECHANISMS
            P13).

    Args:
        reached: batch that the copy had done at the assignment; 0 without state.
        before: returns the newest batch that the unit is known to have processed; called until the copy has its state.
    """

    def __init__(self, placed_ms: float, reached: int = 0, before: Callable[[], int] = lambda: 0) -> None:
        self.placed_ms = placed_ms
        self._reached = reached
        self._before = before
        self._running_ms: float | None = None
        self._target = max(before(), reached)
        self.phases: dict[str, float] = {}

    def again(self) -> Takeover:
        """The takeover of a copy that has lost its state meanwhile."""
        return Takeover(self.placed_ms, before=lambda: self._target)

    def follow(self, working: TakeoverOwner, now_ms: float) -> bool:
        """Updates the phases; called in every turn with state. True when every phase has ended."""
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
