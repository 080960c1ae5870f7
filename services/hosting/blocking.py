"""Calls that block (transactions, DeleteRecords, restores) run beside the loop; their outcomes come back to it.

Source: PROTOCOL 5. Calls have lanes, since a call waits as long as Kafka does: while a broker is away, one unit's
transaction or trim must not hold up those of units whose partitions have a leader.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

Call = Callable[[], Any]
Done = Callable[[Any], None]
"""Called in the loop with what the call returned, or the exception it raised."""

QUEUE_LIMIT = 1_000
MAX_THREADS = 32
CLOSE_S = 5.0


class Blocking(Protocol):
    """Runs the calls of a lane in order, and those of different lanes side by side."""

    def run(self, call: Call, done: Done, lane: str = "") -> None: ...
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

    def run(self, call: Call, done: Done, lane: str = "") -> None:
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


class BlockingThreads:
    """Runs calls in daemon threads, of which there are as many as lanes are busy, up to a limit.

    `run` waits while QUEUE_LIMIT calls are under way. `run`, `poll` and `close` are for one thread.
    """

    def __init__(self, name: str, limit: int = MAX_THREADS) -> None:
        self._name, self._limit = name, limit
        self._lock = threading.Lock()
        self._lanes: dict[str, deque[tuple[Call, Done]]] = {}
        self._ready: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(QUEUE_LIMIT)
        self._threads: list[threading.Thread] = []
        self._spare = 0
        self._outcomes: deque[tuple[Done, Any]] = deque()
        self._count = 0

    def run(self, call: Call, done: Done, lane: str = "") -> None:
        self._room.acquire()
        self._count += 1
        with self._lock:
            calls = self._lanes.setdefault(lane, deque())
            calls.append((call, done))
            if len(calls) == 1:
                self._offer(lane)

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
        """Waits a little for the calls that have begun."""
        for _ in self._threads:
            self._ready.put(None)
        deadline = time.monotonic() + CLOSE_S
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))

    def _offer(self, lane: str) -> None:
        """To a thread that has nothing to do, or a new one; with the lock held."""
        self._ready.put(lane)
        if self._spare > 0:
            self._spare -= 1
        elif len(self._threads) < self._limit:
            name = f"{self._name}-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while (lane := self._ready.get()) is not None:
            call, done = self._lanes[lane][0]
            self._outcomes.append((done, _outcome(call)))
            self._room.release()
            with self._lock:
                calls = self._lanes[lane]
                calls.popleft()
                if calls:
                    self._ready.put(lane)
                else:
                    del self._lanes[lane]
                if self._ready.empty():
                    self._spare += 1


def _outcome(call: Call) -> Any:
    try:
        return call()
    except Exception as error:
        return error
