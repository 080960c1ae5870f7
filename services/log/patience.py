"""Patience of a command: the time that it waits for Kafka, its messages meanwhile, and the error at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from holdfast.services.kernel.errors import Forbidden, Retriable, TopicGone

FIRST_WORD_S = 1.0
"""Seconds without an answer after which the command reports the cause of its wait."""
LOOK_AGAIN_S = 0.2
PATIENCE_S = 30.0
SETTING = "HOLDFAST_COMMAND_PATIENCE_S"

_FINAL = (Forbidden, TopicGone)
"""Errors that a person must mend; they do not pass with time."""
_T = TypeVar("_T")


class _Timer(Protocol):
    def start(self) -> None: ...
    def cancel(self) -> None: ...


def _timer(seconds: float, call: Callable[[], None]) -> _Timer:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    return timer


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits of a call's wait, in seconds, and the messages meanwhile.

    limit_s: the longest wait for an answer.
    say: shows a message to the person; may be called by another thread.
    clock_s, sleep, timer: replaced in tests.
    """

    limit_s: float
    say: Callable[[str], None]
    clock_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    timer: Callable[[float, Callable[[], None]], _Timer] = _timer

    def ask(self, what: str, call: Callable[[], _T], retry: type[Retriable] = Retriable) -> _T:
        """Returns the answer of `call`. Raises Retriable when the limit is over, and errors that time does not mend at
        once.

        Args:
            what: the awaited action, for messages: "Kafka to ...".
            retry: errors after which nothing was done, so that the call may be made again.
        """
        with Wait(self, what) as wait:
            while True:
                try:
                    return call()
                except retry as error:
                    wait.again(error)


class Wait:
    """A wait from its begin, or from the last progress, to the first message and to the limit; used by one thread."""

    def __init__(self, patience: Patience, what: str) -> None:
        self._patience = patience
        self._what = what
        self._since_s: float | None = None
        self._reason = ""
        self._said = False
        self._lock = threading.Lock()
        self._timer: _Timer | None = None

    def __enter__(self) -> Self:
        self.begin()
        self._arm(FIRST_WORD_S)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._said = True  # a timer that has just fired does not arm another one
            if self._timer is not None:
                self._timer.cancel()

    def begin(self) -> None:
        """Starts the wait, or starts it again after progress."""
        self._since_s = self._patience.clock_s()

    def rest(self) -> None:
        """Pauses the wait: the caller has its answer and works until the next `begin`."""
        self._since_s = None

    def still(self, error: Retriable) -> None:
        """Notes that there is no answer yet. Raises the final error when the limit is over or time does not mend the
        error.
        """
        if isinstance(error, _FINAL):
            raise error
        self._reason = str(error)
        waited_s = self._waited_s()
        if waited_s >= self._patience.limit_s:
            raise Retriable(
                f"gave up after {self._patience.limit_s:g} s of waiting for {self._what}: {error}. Check that the "
                f"brokers run: a partition has no leader while no replica runs. {SETTING} says how long commands wait"
            ) from error
        if waited_s >= FIRST_WORD_S:
            self._say()

    def again(self, error: Retriable) -> None:
        """Notes that there is no answer yet, as `still` does, and pauses before the next try."""
        self.still(error)
        self._patience.sleep(LOOK_AGAIN_S)

    def _waited_s(self) -> float:
        return 0.0 if self._since_s is None else self._patience.clock_s() - self._since_s

    def _arm(self, seconds: float) -> None:
        with self._lock:
            if not self._said:
                self._timer = self._patience.timer(seconds, self._look)
                self._timer.start()

    def _look(self) -> None:
        """Runs in the timer's thread: reports a call without an answer. Its wait is not
        over, so `still` is not called.
        """
        waited_s = self._waited_s()
        if waited_s >= FIRST_WORD_S:
            self._say()
        else:
            self._arm(FIRST_WORD_S - waited_s)

    def _say(self) -> None:
        with self._lock:
            if self._said:
                return
            self._said = True
        why = f": {self._reason}" if self._reason else ""
        self._patience.say(f"waiting up to {self._patience.limit_s:g} s for {self._what}{why}")
