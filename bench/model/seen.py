"""Units of the model as the checkpoint policies see them: the same as a worker shows them of its copies.

Source: services/worker/checkpoint/policies/policy.py. What the model does not have is as in a unit at work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bench.model.units import Unit
from holdfast.services.kernel.protection.expected import Protected

FOREVER_MS = 10**9


@dataclass(slots=True)
class Message:
    """A delivered capture that the backup has not pasted yet.

    left_ms: remaining time of its paste.
    """

    unit: str
    sent_ms: float
    paste_ms: float
    left_ms: float


@dataclass(slots=True)
class State:
    """State of one unit over time.

    captured_ms, saved_ms: a_u and b_u, when the newest capture, and the newest delivered one, began; before the first
        one no unit has been captured at 0.
    pending: messages that the backup has yet to paste.
    moving: the worker that is to hold the next image; "": none.
    upkeep_ms: spent on its image in this rebalance period.
    """

    unit: Unit
    backup: str
    captured_ms: float = -1.0
    saved_ms: float = 0.0
    capturing: bool = False
    pending: list[Message] = field(default_factory=list)
    moving: str = ""
    upkeep_ms: float = 0.0

    def elapsed_ms(self, now_ms: float) -> float:
        """Milliseconds covered by the next capture; the first capture on a new backup covers everything."""
        return math.inf if self.moving else now_ms - self.captured_ms

    def replay_ms(self, now_ms: float) -> float:
        """Time that the backup would have to process again."""
        return self.unit.load.done_ms(now_ms) - self.unit.load.done_ms(self.saved_ms)

    def gain_ms(self, now_ms: float) -> float:
        """Milliseconds that a capture would cover."""
        return self.unit.load.done_ms(now_ms) - self.unit.load.done_ms(self.captured_ms)

    def capture_ms(self, now_ms: float) -> float:
        return self.unit.costs.capture_ms(self.elapsed_ms(now_ms))

    def paste_ms(self, now_ms: float) -> float:
        """Milliseconds to paste the waiting messages, or else the next one."""
        if self.pending:
            return sum(message.left_ms for message in self.pending)
        return self.unit.costs.paste_ms(self.elapsed_ms(now_ms))

    def protected(self, now_ms: float) -> Protected:
        return Protected(
            self.unit.primary,
            self.backup,
            self.unit.load.at(now_ms),
            replay_ms=self.replay_ms(now_ms),
            gain_ms=self.gain_ms(now_ms),
            capture_ms=self.capture_ms(now_ms),
            paste_ms=self.paste_ms(now_ms),
            waiting=int(bool(self.pending)),
        )


class Seen:
    """A unit in one worker's view. Implements UnitView.

    leads: true if the unit runs on the worker, false for an image.
    """

    interval_ms, every_batches, merge_ms = 500, 10, 0.0
    swept_ms = 0.0
    batch = batches = changed = 1
    captured_batch = -1
    rests = still = output_trimmed = sinkmost = ended = data_wait = sparse = False
    followed = True
    apply_ms = 0.0

    def __init__(self, state: State, now_ms: float, policy: str, leads: bool, min_interval_ms: int) -> None:
        self.policy = policy
        self.leads = leads
        self.min_interval_ms = min_interval_ms
        self.max_interval_ms = FOREVER_MS
        self.primary = state.unit.primary
        self.backup = state.backup
        self.captured_ms = state.captured_ms
        self.capturing = state.capturing
        self.resting = not state.capturing
        self.confirmed = not state.pending
        self.waiting = 0 if leads else len(state.pending)
        self.waiting_since_ms = math.inf if leads or not state.pending else state.pending[0].sent_ms
        self._state = state
        self._now_ms = now_ms

    @property
    def load(self) -> float:
        return self._state.unit.load.at(self._now_ms)

    @property
    def replay_ms(self) -> float:
        return self._state.replay_ms(self._now_ms)

    @property
    def gain_ms(self) -> float:
        return self._state.gain_ms(self._now_ms)

    @property
    def capture_ms(self) -> float:
        return self._state.capture_ms(self._now_ms)

    @property
    def paste_ms(self) -> float:
        return self._state.paste_ms(self._now_ms)
