"""Holds the lifeline from the parent process, if there is one. Through it the parent learns at once that this process
died, and of which work.

The parent's part is services/node/machine/lifeline.py. The thread that holds it must live as long as the process.
"""

from __future__ import annotations

import ctypes
import mmap
import os

from holdfast.services.hosting.traces import BYTES, OFFSET, Traces

VARIABLE = "HOLDFAST_LIFELINE"


def hold() -> Traces:
    """Takes the lifeline's lock. Returns the traces that the parent reads after the end. Must be called once, by the
    main thread."""
    given = os.environ.pop(VARIABLE, "")
    if not given:
        return Traces()
    memory, holding = map(int, given.split(","))
    page = mmap.mmap(memory, mmap.PAGESIZE)
    mutex = (ctypes.c_char * mmap.PAGESIZE).from_buffer(page)
    os.close(memory)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(mutex))  # never released: the kernel reads it when the process dies
    if ctypes.CDLL(None).pthread_mutex_lock(mutex) == 0:
        os.write(holding, b"1")
    os.close(holding)
    return Traces(memoryview(page)[OFFSET : OFFSET + BYTES])
