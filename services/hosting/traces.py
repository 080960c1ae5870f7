"""Traces of the present work of a process, in a memory page that outlives it. Its parent reads there the cause of its
end.

Source: PROTOCOL 5, docs/decisions/0061. The page belongs to the lifeline (services/node/machine/lifeline.py). Writing a
trace is one copy of bytes without a system call, so it costs about a microsecond for each batch of a unit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.schemas.heartbeats import At

SLOTS, SLOT_BYTES = 8, 384
"""Slots of the page: one for the loop, the others for calls beside the loop."""
BYTES = SLOTS * SLOT_BYTES
OFFSET = 1_024
"""Offset of the traces in the page, behind the mutex."""


class Traces:
    """The traces of this process. `memory` has BYTES bytes; None if no parent reads traces, and then none are
    written.
    """

    def __init__(self, memory: memoryview | None = None) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._free = list(range(1, SLOTS))

    def runs(self, unit: str, batch: int, what: str = "") -> Traces:
        """Writes that the loop does a batch of a unit, or other work for it. Close the context when the loop does no
        unit's work."""
        if self._memory is not None:
            self._write(0, f"{unit} {batch} {what}".encode())
        return self

    def blame(self, unit: str, what: str) -> None:
        """Replaces all traces by one for the unit that caused the end. For a thread that ends the process next."""
        memory, self._memory = self._memory, None
        if memory is not None and unit:
            for slot in range(SLOTS):
                memory[slot * SLOT_BYTES] = 0
            trace = f"{unit} 0 {what}".encode()[: SLOT_BYTES - 1] + b"\0"
            memory[: len(trace)] = trace

    def __enter__(self) -> None:
        pass

    def __exit__(self, *of: object) -> None:
        if self._memory is not None:
            self._memory[0] = 0

    def beside(self, unit: str, what: str, call: Callable[[], Any]) -> Callable[[], Any]:
        """Returns the call with a trace of the unit's work while it runs, for use in any thread."""

        def traced() -> Any:
            with self._slot(f"{unit} 0 {what}".encode()):
                return call()

        return traced

    @contextmanager
    def _slot(self, trace: bytes) -> Iterator[None]:
        """Writes a trace into a free slot for as long as the context is open. Without a free slot nothing is
        written.
        """
        with self._lock:
            slot = self._free.pop() if self._free else None
        if self._memory is None or slot is None:
            yield
            return
        try:
            self._write(slot, trace)
            yield
        finally:
            self._memory[slot * SLOT_BYTES] = 0
            with self._lock:
                self._free.append(slot)

    def _write(self, slot: int, trace: bytes) -> None:
        """Writes a trace; a trace that is too long to be whole is left out."""
        begin = slot * SLOT_BYTES
        if self._memory is not None and len(trace) < SLOT_BYTES:
            self._memory[begin : begin + len(trace) + 1] = trace + b"\0"


def read(memory: memoryview) -> tuple[At, ...]:
    """The work of the process when it ended. A trace that was only partly written is left out."""
    found = []
    for slot in range(SLOTS):
        trace = bytes(memory[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES]).partition(b"\0")[0]
        unit, batch, what = (*trace.decode(errors="replace").split(" ", 2), "", "", "")[:3]
        if unit and batch.isdecimal():
            found.append(At(unit, int(batch), what))
    return tuple(found)
