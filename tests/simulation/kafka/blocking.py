"""Calls that wait for the simulated broker, carried out where the broker is."""

from __future__ import annotations

import math
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.services.hosting.blocking_calls import SOON_MS, Call, Done
from holdfast.services.kernel.errors import Retriable
from tests.simulation.kafka.channel import Channel

if TYPE_CHECKING:
    from tests.simulation.kafka.link import Link

UNLED_US = 100_000, 4_000_000
"""For so long it is asked who leads a partition before the answer is that nobody does."""
STEP_US = 20_000


class Unled(Retriable):
    """A partition of the transaction has no leader: the client waits for one before it gives up."""


class LinkBlocking:
    """Implements Blocking: one call of a lane at a time is carried out where the broker is; its outcome comes later."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lanes: dict[str, deque[tuple[Call, Done]]] = {}
        self._outcomes: deque[tuple[Done, Any]] = deque()
        self._requests = Channel(link, lambda: not link.frozen and not link.dead)
        self._answers = Channel(link, lambda: not link.frozen and not link.dead)

    def run(self, call: Call, done: Done, lane: str = "", soon: bool = True) -> None:
        calls = self._lanes.setdefault(lane, deque())
        calls.append((call, done))
        if len(calls) == 1:
            self._next(lane)

    def poll(self) -> bool:
        if not self._outcomes:
            return False
        while self._outcomes:
            done, outcome = self._outcomes.popleft()
            done(outcome)
        return True

    def look_ms(self) -> float:
        return SOON_MS if self._lanes or self._outcomes else math.inf

    def close(self) -> None:
        self._lanes.clear()

    def _next(self, lane: str) -> None:
        call, done = self._lanes[lane][0]
        self._requests.send(partial(self._arrive, lane, call, done))

    def _arrive(self, lane: str, call: Call, done: Done) -> None:
        """Without a way to the broker and back it waits for a while, and is then tried anyway."""
        patience_us = 0 if self._link.answered else self._link.random.randint(50_000, 3_000_000)
        self._link.timeline.after(patience_us, partial(self._requests.send, partial(self._carry_out, lane, call, done)))

    def _carry_out(self, lane: str, call: Call, done: Done, waited_us: int = 0) -> None:
        try:
            outcome = call()
        except Exception as error:
            outcome = error
        if isinstance(outcome, Unled) and waited_us < UNLED_US[1]:
            self._link.timeline.after(STEP_US, partial(self._carry_out, lane, call, done, waited_us + STEP_US))
            return
        answer = partial(self._answers.send, partial(self._answer, lane, done, outcome))
        if isinstance(outcome, Retriable) and self._link.broker.away and not waited_us:
            self._link.timeline.after(self._link.random.randint(*UNLED_US), answer)
        else:
            answer()

    def _answer(self, lane: str, done: Done, outcome: Any) -> None:
        self._outcomes.append((done, outcome))
        self._link.wake()
        if (calls := self._lanes.get(lane)) is not None:  # None: closed meanwhile
            calls.popleft()
            if calls:
                self._next(lane)
            else:
                del self._lanes[lane]
