"""What a process has freed goes back to the machine."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading

import pytest

from holdfast.services.hosting.giving_back import EVERY_S, GivingBack
from holdfast.services.hosting.present_work import PresentWork
from holdfast.services.hosting.watchdog import Watchdog
from tests.support.deadlines import HANG_S

FREED_MIB, LEFT_MIB = 60, 20
HOLED = f"""
import threading
from holdfast.services.hosting.giving_back import trimming
from holdfast.services.process.usage import resident_bytes

stays, before = [], resident_bytes()


def work():
    made = [bytes(700 + number % 900) for number in range(80_000)]
    stays.extend(made[::800])


thread = threading.Thread(target=work)
thread.start()
thread.join()
held = (resident_bytes() - before) >> 20
trimming()()
left = (resident_bytes() - before) >> 20
assert held > {FREED_MIB}, held
assert left < {LEFT_MIB}, left
"""
"""A thread makes many records, of which one in 800 stays."""


def test_memory_is_given_back_once_in_a_while() -> None:
    now_s, given = 0.0, list[float]()
    giving = GivingBack(lambda: given.append(now_s), lambda: now_s)
    while now_s < 3 * EVERY_S:
        giving.give_back_if_due()
        now_s += 1.0
    assert given == [EVERY_S, 2 * EVERY_S]


def test_the_watchdog_gives_back_from_its_own_thread() -> None:
    given, now_s = threading.Event(), iter(range(1_000_000))
    dog = Watchdog(PresentWork(), 60.0, set, giving_back=GivingBack(given.set, lambda: next(now_s) * EVERY_S))
    dog.start()
    try:
        assert given.wait(HANG_S)
    finally:
        dog.stop()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has another malloc")
def test_a_heap_with_holes_goes_back_to_the_machine() -> None:
    subprocess.run([sys.executable, "-c", HOLED], check=True, timeout=HANG_S)
