"""Takes hold of the lifeline that a parent process has given us, if it has: it learns at once when we die, and of what.

The parent's part is services/node/machine/lifeline.py. The thread that holds it must live as long as the process does.
"""

from __future__ import annotations

import ctypes
import mmap
import os

from holdfast.services.hosting.traces import BYTES, OFFSET, Traces

VARIABLE = "HOLDFAST_LIFELINE"


def hold() -> Traces:
    """To be called once, by the main thread. What the parent is to read of our work, once we are dead."""
    given = os.environ.pop(VARIABLE, "")
    if not given:
        return Traces()
    memory, holding = map(int, given.split(","))
    page = mmap.mmap(memory, mmap.PAGESIZE)
    mutex = (ctypes.c_char * mmap.PAGESIZE).from_buffer(page)
    os.close(memory)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(mutex))  # for ever: the kernel looks there when we are dying
    if ctypes.CDLL(None).pthread_mutex_lock(mutex) == 0:
        os.write(holding, b"1")
    os.close(holding)
    return Traces(memoryview(page)[OFFSET : OFFSET + BYTES])
