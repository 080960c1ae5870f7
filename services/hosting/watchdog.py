"""Finds out that a host's loop hangs, in user code or in a call that never returns, or that its memory is nearly full,
and ends the process then.

Source: PROTOCOL 5, docs/decisions/0060. Heartbeats come from a thread of their own, so without this a worker whose loop
hangs looks alive for ever. Only time in which this thread itself ran counts: where the whole process was stopped, its
loop did not hang.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from holdfast.schemas.heartbeats import Turn
from holdfast.services.hosting.doing import Doing
from holdfast.services.hosting.giving_back import GivingBack
from holdfast.services.hosting.memory import Memory

LOOK_S, SELDOM_S = 0.1, 0.25
"""Time between two looks: a batch may fill the memory fast, where that has a limit."""
LONG_MS = 1_000.0
"""Shorter turns are nobody's business."""
COLD = 6
"""So many times longer a turn may last while a copy is loaded or restored, or does its first batch: the first batch of
a cold process takes seconds, and what user code loads with it may take more."""
ENDS = 2
"""The process ends after so many times its patience: until then a standby leads that gives the place back."""
ALL_HELD_S = 60.0
"""A call that hangs and lets no other thread run, this one included, ends the process after so long, or the longest
patience if that is more: then a timer of C's does it."""
HUNG_STATUS = 70
"""EX_SOFTWARE of sysexits.h."""

COLD_STATES = frozenset({"new", "deploying", "restoring"})


class Watchdog:
    """Watchdog of one loop.

    Args:
        patience_s: a longer turn of a warm copy counts as silence.
        states: of the copies here.
        memory: of the process; it ends where that nears its limit.
        giving_back: of what is free in it.
        end: called with the cause once the loop has hung for too long; must not return.
    """

    def __init__(
        self,
        doing: Doing,
        patience_s: float,
        states: Callable[[], set[str]],
        end: Callable[[str], object] | None = None,
        clock_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
        memory: Memory | None = None,
        giving_back: GivingBack | None = None,
    ) -> None:
        self._memory, self._giving_back = memory or Memory(0), giving_back or GivingBack()
        self._every_s = LOOK_S if self._memory.limited else SELDOM_S
        self._doing, self._patience_ms, self._states, self._clock_ms = doing, patience_s * 1000, states, clock_ms
        self._end = end or end_process
        self._turns, self._age_ms = doing.turns, 0.0
        self._looked_ms = clock_ms()
        self._patient_ms = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="watchdog", daemon=True)

    @property
    def turn(self) -> Turn | None:
        """The turn that lasts long; None: the loop turns."""
        if self._age_ms < LONG_MS:
            return None
        return Turn(int(self._age_ms), int(self._patient_ms), self._doing.unit)

    def look(self) -> None:
        """From time to time. The longest patience that was due in a turn counts: its copies may be loaded since."""
        if cause := self._memory.look(self._doing.unit):
            self._doing.traces.blame(self._memory.grower, "filling memory with")
            self._end(cause)
        now_ms = self._clock_ms()
        ran_ms, self._looked_ms = min(now_ms - self._looked_ms, 2 * self._every_s * 1000), now_ms
        if self._doing.turns != self._turns:
            self._turns, self._age_ms, self._patient_ms = self._doing.turns, 0.0, 0.0
            return
        self._age_ms += ran_ms
        if self._age_ms >= LONG_MS:
            cold = self._doing.cold or bool(self._states() & COLD_STATES)
            self._patient_ms = max(self._patient_ms, self._patience_ms * (COLD if cold else 1))
            if self._age_ms > ENDS * self._patient_ms:
                self._end(f"its loop is {self.turn}")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        faulthandler.cancel_dump_traceback_later()

    def _work(self) -> None:
        last_s = max(ALL_HELD_S, ENDS * COLD * self._patience_ms / 1000)
        armed_s = -last_s
        while not self._stop.wait(self._every_s):
            if time.monotonic() - armed_s >= last_s / 4:
                armed_s = time.monotonic()
                with suppress(Exception):  # no file to write to
                    faulthandler.dump_traceback_later(last_s, exit=True)
            self.look()
            self._giving_back.look()


def end_process(cause: str) -> None:
    """Says why and where every thread stands, and ends: nothing that would have to be saved is in a process."""
    with suppress(Exception):
        print(f"the process ends: {cause}; every thread stood here:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    os._exit(HUNG_STATUS)
