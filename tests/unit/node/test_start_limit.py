"""A start has a time-out, which a process that still loads gets again, and one that hangs does not."""

from __future__ import annotations

import os
import time

from holdfast.services.node.machine.processes import processor_s
from holdfast.services.node.members.start_limit import LOADS_S, MOST, StartLimit

HUNG, LOADING = 0.0, LOADS_S


def test_a_process_that_hangs_is_given_up_after_one_time_out() -> None:
    limit = StartLimit(0.0, 180.0)
    assert not limit.over(180.0, {"worker-1": HUNG})
    assert limit.over(180.1, {"worker-1": HUNG})


def test_a_process_that_loads_gets_the_time_out_again_and_all_that_are_waited_for_must_load() -> None:
    limit = StartLimit(0.0, 180.0)
    assert not limit.over(181.0, {"worker-1": LOADING, "worker-2": LOADING})
    assert not limit.over(361.0, {"worker-1": LOADING, "worker-2": LOADING}), "the time-out began at 181"
    assert not limit.over(361.1, {"worker-1": 2 * LOADING}), "worker-2 has given a sign"
    assert limit.over(542.0, {"worker-1": 2 * LOADING}), "no further since"
    limit = StartLimit(0.0, 180.0)
    assert limit.over(181.0, {"worker-1": LOADING, "worker-2": HUNG})


def test_a_process_that_computes_for_ever_is_given_up_too() -> None:
    limit = StartLimit(0.0, 1.0)
    over = [limit.over(2.0 * turn, {"worker-1": float(turn)}) for turn in range(1, MOST + 1)]
    assert over == [False] * (MOST - 1) + [True]


def test_the_processor_time_of_a_process_grows_with_what_it_computes() -> None:
    before, began = processor_s(os.getpid()), time.process_time()
    while time.process_time() < began + 0.05:
        pass
    assert processor_s(os.getpid()) - before >= 0.03
    assert processor_s(2**22 + 1) == 0.0
