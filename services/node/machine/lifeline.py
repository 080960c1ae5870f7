"""Lifeline: learns that a process is dying before the kernel has torn down its memory.

A parent can wait for a child's exit, but the kernel reports it last: after the pages are freed, 20 ms of CPU for a
worker, which a busy machine stretches to some hundred. A robust mutex in shared memory is released first: when the
thread that holds it ends, the waiting thread gets it. Needs Linux; elsewhere the exit itself must do.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from holdfast.schemas.heartbeats import At
from holdfast.services.hosting.traces import BYTES, OFFSET, read
from holdfast.services.worker.process.lifeline import VARIABLE

_SHARED = _ROBUST = 1
_ATTRIBUTE_BYTES = 64
"""More than a pthread_mutexattr_t takes anywhere."""


class Lifeline:
    """Lifeline of one process.

    descriptors: descriptors that the process inherits, by the variable of its environment that names them.
    """

    def __init__(self) -> None:
        self._memory = os.memfd_create("lifeline")
        os.ftruncate(self._memory, mmap.PAGESIZE)
        page = mmap.mmap(self._memory, mmap.PAGESIZE)
        self._mutex = (ctypes.c_char * mmap.PAGESIZE).from_buffer(page)
        self._traces = memoryview(page)[OFFSET : OFFSET + BYTES]
        self._library = ctypes.CDLL(None)
        attribute = ctypes.create_string_buffer(_ATTRIBUTE_BYTES)
        self._check(self._library.pthread_mutexattr_init(attribute))
        self._check(self._library.pthread_mutexattr_setpshared(attribute, _SHARED))
        self._check(self._library.pthread_mutexattr_setrobust(attribute, _ROBUST))
        self._check(self._library.pthread_mutex_init(self._mutex, attribute))
        self._held, self._holding = os.pipe()
        self.descriptors = {VARIABLE: (self._memory, self._holding)}

    def watch(self, died: Callable[[], None]) -> None:
        """Once the process is started. Calls `died`, from a thread of its own, unless it ended before it took hold."""
        os.close(self._holding)
        os.close(self._memory)
        threading.Thread(target=self._await, args=(died,), name="lifeline", daemon=True).start()

    def left(self) -> tuple[At, ...]:
        """Present work of the process, or its work when it died."""
        return read(self._traces)

    def _await(self, died: Callable[[], None]) -> None:
        with os.fdopen(self._held, "rb") as taken:
            if not taken.read(1):
                return
        if self._library.pthread_mutex_lock(self._mutex) == errno.EOWNERDEAD:
            died()

    def _check(self, error: int) -> None:
        if error:
            raise OSError(error, os.strerror(error))


def lifeline() -> Lifeline | None:
    """A lifeline; None where the system has none."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            return Lifeline()
    return None
