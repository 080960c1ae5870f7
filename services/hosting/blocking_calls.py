"""Runs blocking calls (transactions, DeleteRecords, restores) beside the loop, and returns their outcomes to the loop.

Source: PROTOCOL 5. Calls have lanes, because a call waits as long as Kafka does: while a broker is away, the
transaction or trim of one unit must not delay those of units whose partitions have a leader. A call that hangs is given
up: its thread is abandoned, and its lane continues (docs/decisions/0060).
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.services.kernel.errors import Retriable, WorkerUnfit

Call = Callable[[], Any]
Done = Callable[[Any], None]
"""A function that the loop calls with the result of a call, or with the exception that it raised."""

QUEUE_LIMIT = 1_000
MAX_THREADS = 32
CLOSE_S = 5.0
MOST_HUNG = 8
"""Number of hanging threads at which the process ends, because only a new process is surely free of the cause."""
LOOK_S = 0.25
SOON_MS, LATE_MS, LOOK_SHARE = 2.0, 20.0, 1 / 8
"""The loop looks for an outcome again after this share of the time that the call takes so far, within these bounds."""

_call = threading.local()


def further() -> None:
    """Reports progress of the present call. A call that may take minutes, such as a restore, uses it so that it does
    not count as hanging."""
    under_way: _Call | None = getattr(_call, "under_way", None)
    if under_way is not None:
        under_way.further_s = time.monotonic()


@dataclass(slots=True)
class _Call:
    """A call and its progress.

    Attributes:
        call: the function to call.
        done: receives the outcome.
        lane: lane of the call.
        asked_s: monotonic time at which it was handed over, in seconds.
        soon: True if something waits for the outcome.
        further_s: monotonic time of its last progress, in seconds; infinite before the call begins.
        given_up: True if its outcome is no longer awaited.
    """

    call: Call
    done: Done
    lane: str
    asked_s: float
    soon: bool
    further_s: float = field(default=math.inf)
    given_up: bool = False


class Blocking(Protocol):
    """Runs the calls of a lane in order, and calls of different lanes in parallel."""

    def run(self, call: Call, done: Done, lane: str = "", soon: bool = True) -> None:
        """soon: something waits for the outcome."""
        ...

    def poll(self) -> bool:
        """Passes the available outcomes to their `done`. True if there were any."""
        ...

    def look_ms(self) -> float:
        """Milliseconds until the next look for outcomes; infinite if something waits for none."""
        ...

    def close(self) -> None: ...


class Inline:
    """Runs each call at once and delivers its outcome at the next poll. For memory logs, which never block."""

    def __init__(self) -> None:
        self._outcomes: deque[tuple[Done, Any]] = deque()

    def run(self, call: Call, done: Done, lane: str = "", soon: bool = True) -> None:
        self._outcomes.append((done, _outcome(call)))

    def poll(self) -> bool:
        some = bool(self._outcomes)
        while self._outcomes:
            done, outcome = self._outcomes.popleft()
            done(outcome)
        return some

    def look_ms(self) -> float:
        return SOON_MS if self._outcomes else math.inf

    def close(self) -> None:
        self._outcomes.clear()


class BlockingThreads:
    """Runs calls in daemon threads: one for each busy lane, up to a limit.

    `run` waits while QUEUE_LIMIT calls are under way. A single thread must call `run`, `poll` and `close`. `gave_up` is
    called in `poll` with a text for each call that hangs.

    Args:
        patience_s: time without progress, in seconds, after which a call is given up with the outcome Retriable. All
            later effects of the call must be harmless: a transaction is fenced, an image is never opened, a trim was
                due
            anyway.
    """

    def __init__(self, name: str, limit: int = MAX_THREADS, patience_s: float = math.inf) -> None:
        self._name = name
        self._limit = limit
        self._patience_s = patience_s
        self.gave_up: Callable[[str], None] = lambda cause: None
        self._lock = threading.Lock()
        self._lanes: dict[str, deque[_Call]] = {}
        self._ready: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(QUEUE_LIMIT)
        self._threads: list[threading.Thread] = []
        self._spare = self._hung = self._started = 0
        self._outcomes: deque[tuple[Done, Any]] = deque()
        self._count = 0
        self._looked_s = time.monotonic()

    def run(self, call: Call, done: Done, lane: str = "", soon: bool = True) -> None:
        self._room.acquire()
        if not self._count:
            self._looked_s = time.monotonic()
        self._count += 1
        with self._lock:
            calls = self._lanes.setdefault(lane, deque())
            calls.append(_Call(call, done, lane, asked_s=time.monotonic(), soon=soon))
            if len(calls) == 1:
                self._offer(lane)

    def poll(self) -> bool:
        """Passes the available outcomes to their `done`. True if there were any. Raises WorkerUnfit when too many calls
        hang."""
        if self._count:
            self._look(time.monotonic())
        some = bool(self._outcomes)
        while self._outcomes:
            done, outcome = self._outcomes.popleft()
            self._count -= 1
            done(outcome)
        return some

    def look_ms(self) -> float:
        """Looks are further apart the longer the newest call takes: each costs the loop a turn."""
        if not self._count:
            return math.inf
        with self._lock:
            if self._outcomes:
                return 0.0
            asked = [one.asked_s for calls in self._lanes.values() for one in calls if one.soon]
        if not asked:
            return math.inf
        return min(max(SOON_MS, (time.monotonic() - max(asked)) * 1000 * LOOK_SHARE), LATE_MS)

    def close(self) -> None:
        """Waits up to CLOSE_S for the calls that have begun."""
        for _ in self._threads:
            self._ready.put(None)
        deadline = time.monotonic() + CLOSE_S
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))

    def _look(self, now_s: float) -> None:
        """Gives up hanging calls. Time between two polls beyond LOOK_S does not count, because then the whole process
        was stopped."""
        late_s, self._looked_s = now_s - self._looked_s, now_s
        with self._lock:
            begun = [calls[0] for calls in self._lanes.values() if calls[0].further_s < math.inf]
            for one in begun if late_s > LOOK_S else ():
                one.further_s += late_s - LOOK_S
            hung = [one for one in begun if now_s - one.further_s > self._patience_s]
            for one in hung:
                self._give_up(one)
        for one in hung:
            what = f"of {one.lane} " if one.lane else ""
            cause = f"{self._name}: a call {what}came no further for {self._patience_s:g} s, and is given up"
            self._room.release()
            self._outcomes.append((one.done, Retriable(cause)))
            self.gave_up(cause)
        if self._hung >= MOST_HUNG:
            raise WorkerUnfit(f"{self._hung} calls of {self._name} hang")

    def _offer(self, lane: str) -> None:
        """Passes a lane to an idle thread or to a new one. The lock must be held."""
        self._ready.put(lane)
        if self._spare > 0:
            self._spare -= 1
        else:
            self._start()

    def _start(self) -> None:
        """Starts another thread, unless the limit is reached; hanging threads do not count. The lock must be held."""
        if len(self._threads) - self._hung < self._limit:
            self._started += 1
            name = f"{self._name}-{self._started}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _over(self, lane: str) -> bool:
        """Removes the first call of a lane. True if the lane has another call. The lock must be held."""
        calls = self._lanes[lane]
        calls.popleft()
        if not calls:
            del self._lanes[lane]
        return bool(calls)

    def _give_up(self, one: _Call) -> None:
        """Gives up a call. Its thread no longer counts, so another thread may start for waiting lanes. The lock must be
        held."""
        one.given_up = True
        self._hung += 1
        if self._over(one.lane):
            self._offer(one.lane)
        elif not self._ready.empty():
            self._start()

    def _work(self) -> None:
        while (lane := self._ready.get()) is not None:
            one = self._lanes[lane][0]
            one.further_s = time.monotonic()
            _call.under_way = one
            outcome = _outcome(one.call)
            with self._lock:
                if one.given_up:
                    self._hung -= 1
                    self._threads.remove(threading.current_thread())
                    return
                self._outcomes.append((one.done, outcome))
                self._room.release()
                if self._over(lane):
                    self._ready.put(lane)
                if self._ready.empty():
                    self._spare += 1
            # An error, and the producer that its traceback holds, would stay until this thread has another call.
            _call.under_way = None
            del one, outcome


def _outcome(call: Call) -> Any:
    try:
        return call()
    except Exception as error:
        return error
