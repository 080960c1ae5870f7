"""Questions to Kafka for a thread that cannot wait for them, such as the thread that answers a scrape.

Each question has a thread of its own, and at most one is under way: an absent Kafka costs one thread, and each caller a
bounded time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from holdfast.services.kernel.errors import Retriable

T = TypeVar("T")

WAIT_S = 0.8
"""Seconds; Prometheus, systemd and Kubernetes wait at least a second for an answer."""
FRESH_S = 1.0
"""Seconds for which an answer serves later callers."""


class RepeatedQuestion(Generic[T]):
    """A question that is asked repeatedly, from any thread.

    Args:
        ask: blocks; may raise HoldfastError.
    """

    def __init__(self, ask: Callable[[], T], wait_s: float = WAIT_S, clock_s: Callable[[], float] = time.monotonic):
        self._ask = ask
        self._wait_s = wait_s
        self._clock_s = clock_s
        self._changed = threading.Condition()
        self._answer: T | Exception | None = None
        self._answered_s: float | None = None
        self._under_way = False

    def get(self) -> T:
        """An answer at most FRESH_S old. Raises Retriable if there is none in time, or the error of `ask`."""
        with self._changed:
            asked_s = self._clock_s()
            if not self._under_way and not self._since(asked_s - FRESH_S):
                self._under_way = True
                threading.Thread(target=self._work, name="asking", daemon=True).start()
            self._changed.wait_for(lambda: self._since(asked_s - FRESH_S), self._wait_s)
            if not self._since(asked_s - FRESH_S):
                raise Retriable(f"Kafka has not answered within {self._wait_s:g} s")
            answer = self._answer
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    def _since(self, at_s: float) -> bool:
        return self._answered_s is not None and self._answered_s >= at_s

    def _work(self) -> None:
        answer: T | Exception
        try:
            answer = self._ask()
        except Exception as error:
            answer = error
        with self._changed:
            self._answer, self._answered_s, self._under_way = answer, self._clock_s(), False
            self._changed.notify_all()
