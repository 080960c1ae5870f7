"""A worker publishes for how long checkpoint work kept a unit from its batches."""

from __future__ import annotations

import pytest

from holdfast.schemas import progress
from holdfast.schemas.topics import Partition
from holdfast.services.worker.checkpoint.writer import LogWriter
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, orders

SLOW_MS = 7


def test_a_copy_that_is_closed_lets_go_of_its_state() -> None:
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("orders", orders(200)[partition::2], partition)
    cluster.turn(100)
    stores = [copy.running.checkpoints.store for copy in worker._copies.here.values() if copy.running is not None]
    assert sum(len(table) for store in stores for table in store._tables.values())
    cluster.place({unit: [] for unit in cluster.units})
    cluster.turn(10)
    assert not worker.copies()
    assert sum(len(table) for store in stores for table in store._tables.values()) == 0


def test_the_longest_step_of_checkpoint_work_is_published_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = orders(200)
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    fast, slow = LogWriter.work, [SLOW_MS]

    def work(writer: LogWriter) -> None:
        if writer.working and slow:
            cluster.now_ms += slow.pop()
        fast(writer)

    monkeypatch.setattr(LogWriter, "work", work)
    for partition in (0, 1):
        cluster.feed("orders", fed[partition::2], partition)
    cluster.run_to_end()
    published = [progress.decode(m.value() or b"") for m in cluster.log.scan(Partition(cluster.topics.progress, 0))]
    assert not slow, "a checkpoint was made"
    assert [one.step_ms for one in published if one.step_ms] == [SLOW_MS]
