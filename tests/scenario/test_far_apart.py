"""Work that accompanies batches while they are far apart: progress and sweeps are as seldom as the batches.

PROTOCOL 1 and 6, on workers with a log in memory.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from holdfast.schemas import progress
from holdfast.schemas.topics import Partition
from holdfast.services.worker.checkpoint.policies.sweep import FEW_BATCHES, PATIENCE
from holdfast.services.worker.checkpoint.scheduler import HELD_MS
from holdfast.services.worker.core.pace import GAPS
from holdfast.services.worker.unit.turns.progress_publisher import PROGRESS_MS, SELDOM_PROGRESS_MS
from tests.scenario.test_rest import INTERVAL_MS, JOB, markers
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import orders

APART_MS, BATCHES = 200, 24


@pytest.fixture
def cluster() -> MemoryCluster:
    """Source and sink on a worker each; batches have been far apart for long enough."""
    return fed(MemoryCluster(f"latency_ms: 250\n{JOB}"))


def fed(cluster: MemoryCluster) -> MemoryCluster:
    cluster.place({unit: [cluster.start(f"w-{unit}")] for unit in cluster.units})
    cluster.turn(100)
    feed(cluster, GAPS + 2)
    return cluster


def feed(cluster: MemoryCluster, batches: int) -> None:
    for record in orders(batches):
        cluster.feed("orders", [record])
        cluster.turn(APART_MS)


def published_ms(cluster: MemoryCluster, unit: str, since: int) -> list[int]:
    records = list(cluster.log.scan(Partition(cluster.topics.progress, 0)))[since:]
    return [r.timestamp()[1] for r in records if progress.decode(r.value() or b"").unit == unit]


def test_a_worker_that_reads_no_cuts_publishes_progress_as_seldom_as_one_that_does(cluster: MemoryCluster) -> None:
    before = len(list(cluster.log.scan(Partition(cluster.topics.progress, 0))))
    feed(cluster, BATCHES)
    for unit in cluster.units:
        times = published_ms(cluster, unit, before)
        assert len(times) <= BATCHES * APART_MS / SELDOM_PROGRESS_MS + 1, unit
    assert BATCHES * APART_MS / PROGRESS_MS > 2 * BATCHES * APART_MS / SELDOM_PROGRESS_MS


def test_a_batch_is_published_when_it_is_done(cluster: MemoryCluster) -> None:
    """Later it would seem to take longer, and the next batches would be further apart."""
    before = len(list(cluster.log.scan(Partition(cluster.topics.progress, 0))))
    feed(cluster, BATCHES)
    done_ms = [row.timestamp()[1] for row in cluster.log.scan(Partition("counts", 0))]
    late = [at for at in published_ms(cluster, cluster.units[-1], before) if all(abs(at - one) > 10 for one in done_ms)]
    assert not late


def test_a_sweep_waits_for_eight_batches_that_are_far_apart(cluster: MemoryCluster) -> None:
    before = {unit: len(found) for unit, found in markers(cluster).items()}
    feed(cluster, BATCHES)
    for unit, batches in markers(cluster).items():
        new = batches[before[unit] :]
        assert new, f"{unit}: acks continue"
        assert all(b - a >= 8 for a, b in pairwise(new)), f"{unit}: swept at {new}"


def test_a_sweep_waits_for_no_longer_than_four_intervals(cluster: MemoryCluster) -> None:
    feed(cluster, 1)
    before = {unit: len(found) for unit, found in markers(cluster).items()}
    cluster.turn((PATIENCE + 1) * INTERVAL_MS)
    for unit, batches in markers(cluster).items():
        assert len(batches) > before[unit], unit


def test_a_bounded_job_is_swept_as_often_as_always() -> None:
    """Its sources wait for the room that a checkpoint makes."""
    cluster = fed(MemoryCluster(f"latency_ms: 250\nretain_bytes: 2000000\n{JOB}"))
    before = {unit: len(found) for unit, found in markers(cluster).items()}
    feed(cluster, BATCHES)
    for unit, batches in markers(cluster).items():
        assert len(batches) - before[unit] > BATCHES // FEW_BATCHES + 1, unit


def test_captures_wait_while_a_unit_of_the_job_is_taken_over(cluster: MemoryCluster) -> None:
    reading, counting = cluster.units
    first = cluster.workers[f"w-{reading}"]
    feed(cluster, FEW_BATCHES)
    cluster.place({counting: [cluster.start("w-other")]})
    before = {unit: len(found) for unit, found in markers(cluster).items()}
    cluster.turn(10)
    runs = first._around.checkpoints
    assert runs._held_ms > cluster.now_ms
    for record in orders(FEW_BATCHES):
        cluster.feed("orders", [record])
        cluster.turn((int(HELD_MS) - 20) // FEW_BATCHES)
    assert len(markers(cluster)[reading]) == before[reading], "nothing was captured meanwhile"
    cluster.turn((PATIENCE + 1) * INTERVAL_MS)
    assert len(markers(cluster)[reading]) > before[reading]


def test_nobody_listens_for_heartbeats_of_units_that_publish_seldom(cluster: MemoryCluster) -> None:
    """Sources took a unit that had published nothing for 300 ms for one without a place."""
    feed(cluster, BATCHES)
    assert [worker._presence._since_ms for worker in cluster.workers.values()] == [math.inf] * 2
