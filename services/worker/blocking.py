"""Calls that block (transactions, DeleteRecords, restores) run beside the loop; their outcomes come back to it.

Source: PROTOCOL 5: one named thread with a bounded queue.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

Call = Callable[[], Any]
Done = Callable[[Any], None]
"""Called in the loop with what the call returned, or the exception it raised."""

QUEUE_LIMIT = 1_000


class Blocking(Protocol):
    """Runs calls in order."""

    def run(self, call: Call, done: Done) -> None: ...
    def poll(self) -> bool:
        """Hands the outcomes that are there to their `done`; True if there were any."""
        ...

    @property
    def under_way(self) -> bool:
        """Outcomes are still to come."""
        ...

    def close(self) -> None: ...


class Inline:
    """Runs a call at once; the outcome waits for the next poll. For memory logs, where nothing blocks."""

    def __init__(self) -> None:
        self._outcomes: deque[tuple[Done, Any]] = deque()

    def run(self, call: Call, done: Done) -> None:
        self._outcomes.append((done, _outcome(call)))

    def poll(self) -> bool:
        some = bool(self._outcomes)
        while self._outcomes:
            done, outcome = self._outcomes.popleft()
            done(outcome)
        return some

    @property
    def under_way(self) -> bool:
        return bool(self._outcomes)

    def close(self) -> None:
        self._outcomes.clear()


class BlockingThread:
    """Runs calls in one named daemon thread."""

    def __init__(self, name: str) -> None:
        self._calls: queue.Queue[tuple[Call, Done] | None] = queue.Queue(QUEUE_LIMIT)
        self._outcomes: deque[tuple[Done, Any]] = deque()
        self._count = 0
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, call: Call, done: Done) -> None:
        self._count += 1
        self._calls.put((call, done))

    def poll(self) -> bool:
        some = bool(self._outcomes)
        while self._outcomes:
            done, outcome = self._outcomes.popleft()
            self._count -= 1
            done(outcome)
        return some

    @property
    def under_way(self) -> bool:
        return self._count > 0

    def close(self) -> None:
        self._calls.put(None)
        self._thread.join(timeout=5)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            call, done = item
            self._outcomes.append((done, _outcome(call)))


def _outcome(call: Call) -> Any:
    try:
        return call()
    except Exception as error:
        return error
