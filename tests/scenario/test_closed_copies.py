"""A copy that is closed says so to the collector of its worker, and nothing that lives holds what it had."""

from __future__ import annotations

import gc

from holdfast.services.process.collector import Collector
from holdfast.services.worker.unit.turns.running_copy import RunningCopy
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, orders


def running() -> int:
    return sum(isinstance(one, RunningCopy) for one in gc.get_objects())


def test_nothing_is_left_of_copies_that_moved_away() -> None:
    gc.collect()
    before, passes = running(), list[int]()
    cluster = MemoryCluster(JOB)
    now_s = [0.0]

    def collect(generation: int) -> None:
        passes.append(generation)
        gc.collect(generation)

    collector = Collector(collect, lambda: 0, lambda: now_s[0])
    try:
        first = cluster.start("first", left=collector.left)
        cluster.place({unit: [first] for unit in cluster.units})
        cluster.feed("orders", orders(100))
        cluster.turn(100)
        assert running() == before + len(cluster.units)
        collector.turned(False)
        second = cluster.start("second")
        cluster.place({unit: [second] for unit in cluster.units})
        cluster.turn(200)
        now_s[0] += 10
        collector.turned(False)
    finally:
        gc.enable()
    assert passes == [2]
    assert running() == before + len(cluster.units), "those of the second worker"
