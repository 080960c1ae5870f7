"""Ends a process whose loop hangs, in user code or in a call that never returns, or whose memory is nearly full.

Source: PROTOCOL 5, docs/decisions/0060. Heartbeats come from a thread of their own, so without the watchdog a worker
with a hanging loop would look alive for ever. Only time in which the watchdog's thread itself ran counts: if the whole
process was stopped, its loop did not hang.
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
from holdfast.services.hosting.giving_back import GivingBack
from holdfast.services.hosting.memory import Memory
from holdfast.services.hosting.present_work import PresentWork

LOOK_S, SELDOM_S = 0.1, 0.25
"""Seconds between two checks, with and without a memory limit. A batch may fill the memory fast."""
LONG_MS = 1_000.0
"""Turns shorter than this are not reported, in milliseconds."""
COLD = 6
"""Factor of the patience while a copy is loaded or restored, or does its first batch. The first batch of a cold process
takes seconds, and user code may load more with it."""
ENDS = 2
"""Multiple of the patience after which the process ends. Until then, a standby that leads switches back if the loop
turns again."""
ALL_HELD_S = 60.0
"""Seconds after which a call that blocks all other threads ends the process, through a timer in C; the longest patience
applies if it is larger."""
HUNG_STATUS = 70
"""Exit status of a process that hangs: EX_SOFTWARE of sysexits.h."""

COLD_STATES = frozenset({"new", "deploying", "restoring"})


class Watchdog:
    """The watchdog of one loop.

    Args:
        patience_s: seconds after which a turn of a warm copy counts as silence.
        states: states of the copies here.
        memory: memory of the process, which ends near its limit.
        giving_back: returns free memory to the machine.
        end: called with the cause when the loop has hung for too long; must not return.
    """

    def __init__(
        self,
        doing: PresentWork,
        patience_s: float,
        states: Callable[[], set[str]],
        end: Callable[[str], object] | None = None,
        clock_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
        memory: Memory | None = None,
        giving_back: GivingBack | None = None,
    ) -> None:
        self._memory = memory or Memory(0)
        self._giving_back = giving_back or GivingBack()
        self._every_s = LOOK_S if self._memory.limited else SELDOM_S
        self._doing = doing
        self._patience_ms = patience_s * 1000
        self._states = states
        self._clock_ms = clock_ms
        self._end = end or end_process
        self._turns = doing.turns
        self._age_ms = 0.0
        self._looked_ms = clock_ms()
        self._patient_ms = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="watchdog", daemon=True)

    @property
    def turn(self) -> Turn | None:
        """The present turn if it lasts at least LONG_MS; otherwise None."""
        if self._age_ms < LONG_MS:
            return None
        return Turn(int(self._age_ms), int(self._patient_ms), self._doing.unit)

    def look(self) -> None:
        """Checks the memory and the loop. The longest patience that applied during a turn counts, because its copies
        may have been loaded since."""
        if cause := self._memory.look(self._doing.unit):
            self._doing.traces.blame(self._memory.grower, "filling memory with")
            self._end(cause)
        now_ms = self._clock_ms()
        ran_ms, self._looked_ms = min(now_ms - self._looked_ms, 2 * self._every_s * 1000), now_ms
        if self._doing.turns != self._turns:
            self._turns = self._doing.turns
            self._age_ms = 0.0
            self._patient_ms = 0.0
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
                with suppress(Exception):  # faulthandler raises if stderr is no file
                    faulthandler.dump_traceback_later(last_s, exit=True)
            self.look()
            self._giving_back.give_back_if_due()


def end_process(cause: str) -> None:
    """Prints the cause and the stack of every thread, and ends the process at once. The process holds nothing that must
    be saved."""
    with suppress(Exception):
        print(f"the process ends: {cause}; every thread stood here:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    os._exit(HUNG_STATUS)
