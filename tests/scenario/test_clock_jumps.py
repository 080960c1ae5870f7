"""Whoever sets the clock while a job runs changes nothing of its results, and holds nothing up."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.controller.__main__ import steady_time_ms
from holdfast.services.hosting.settings import new_incarnation
from tests.support.examples import examples
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, Order, check, orders

DAY_MS = 86_400_000
jumps = st.lists(st.tuples(st.integers(1, 150), st.integers(-DAY_MS, DAY_MS)), min_size=1, max_size=4)


def feed_part(cluster: MemoryCluster, fed: list[Order], number: int, parts: int) -> None:
    """In the order of their times: none is late."""
    start, stop = len(fed) * number // parts, len(fed) * (number + 1) // parts
    for partition in (0, 1):
        cluster.feed("orders", fed[start:stop][partition::2], partition)


@examples(each_run=6, with_long=30)
@given(jumps, st.integers(0, 99))
def test_a_clock_set_forth_and_back_in_the_middle_of_a_job_changes_no_result(
    jumps: list[tuple[int, int]], seed: int
) -> None:
    fed = orders(240, seed)
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    for number, (turns, jump_ms) in enumerate(jumps):
        feed_part(cluster, fed, number, len(jumps))
        cluster.turn(turns)
        cluster.day_ms += jump_ms
    cluster.kill("w1")
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_a_machine_that_slept_continues_where_it_was() -> None:
    """Even the monotonic clock leaps when a virtual machine was suspended."""
    fed = orders(240)
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    for number in range(4):
        feed_part(cluster, fed, number, 4)
        cluster.turn(40)
        cluster.now_ms += DAY_MS
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_a_new_incarnation_sorts_behind_the_former_one_though_the_clock_was_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    former = new_incarnation()
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    assert new_incarnation() < former, "the clock is set back"
    following = new_incarnation(former)
    assert following > former
    assert new_incarnation(following) > following


def test_the_controller_s_clock_continues_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    time_ms = steady_time_ms()
    before = time_ms()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 <= time_ms() - before < 60_000
