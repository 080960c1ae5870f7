"""Threads of a process are lowered by name, and no others."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from holdfast.services.node.machine import priorities

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux alone")


def test_threads_are_lowered_by_the_beginning_of_their_names() -> None:
    over, named = threading.Event(), threading.Barrier(3)
    tasks = dict[str, int]()

    def run(name: str) -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)
        tasks[name] = threading.get_native_id()
        named.wait()
        over.wait()

    threads = [threading.Thread(target=run, args=(name,)) for name in ("patient-1", "urgent-1")]
    before = os.getpriority(os.PRIO_PROCESS, 0)
    for thread in threads:
        thread.start()
    named.wait()
    try:
        assert priorities.lower(os.getpid(), "patient", before + 1) == 1
        assert os.getpriority(os.PRIO_PROCESS, tasks["patient-1"]) == before + 1
        assert os.getpriority(os.PRIO_PROCESS, tasks["urgent-1"]) == before
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_process_that_is_gone_has_no_threads() -> None:
    assert priorities.lower(2**22 + 1, "any", 1) == 0
