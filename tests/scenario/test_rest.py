"""A worker without data does little: seldom a checkpoint, and no looking without waiting."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import pytest

from holdfast.schemas import checkpoints, cuts
from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.cuts import Cut
from holdfast.schemas.topics import Partition
from holdfast.services.worker.checkpoint.policies.policy import REST_MS
from holdfast.services.worker.core.cut_rhythm import IDLE_CUT_MS, REST_AFTER_MS, REST_CUT_MS
from holdfast.services.worker.process.loop import FIRST_MS, MAX_WAIT_MS, QUIET_MS, Worker
from holdfast.services.worker.process.subscriptions import SharedReader
from tests.scenario.test_standby import SECONDARIES
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import orders

INTERVAL_MS = 500
JOB = """
name: orders
sources:
  orders: {topic: orders, fields: {shop: string, amount: int, at: timestamp}, event_time: at, unit: ms}
operators: {per_shop: {aggregate: {n: "count()"}, key: [shop], input: orders}}
queries: {counts: {input: per_shop, sink: {topic: counts}}}
placement: {units: [[orders], [per_shop, counts]]}
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 500}}
"""


@pytest.fixture
def cluster() -> MemoryCluster:
    """Placed, with a record processed and checkpointed."""
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.feed("orders", orders(1))
    cluster.until(lambda: min(len(batches) for batches in markers(cluster).values()) > 0)
    return cluster


def markers(cluster: MemoryCluster) -> dict[str, list[int]]:
    """The batches of each unit's markers."""
    found = {}
    for unit in cluster.plan.units:
        records = cluster.log.scan(Partition(cluster.topics.checkpoints, unit.partition))
        read = [checkpoints.decode(record.value() or b"") for record in records]
        found[unit.name] = [record.b for record in read if isinstance(record, Marker)]
    return found


def cut_ms(cluster: MemoryCluster) -> list[int]:
    """When each cut was proposed."""
    records = cluster.log.scan(Partition(cluster.topics.cuts, 0))
    read = [cuts.decode(record.value() or b"") for record in records]
    return [record.time_ms - cluster.day_ms for record in read if isinstance(record, Cut)]


def between_cuts_ms(cluster: MemoryCluster, turns: int) -> list[int]:
    before = len(cut_ms(cluster))
    cluster.turn(turns)
    times = cut_ms(cluster)[before:]
    return [later - earlier for earlier, later in pairwise(times)]


def test_a_job_at_rest_cuts_seldom_and_its_first_record_as_promptly_as_always(cluster: MemoryCluster) -> None:
    assert max(between_cuts_ms(cluster, int(REST_AFTER_MS) - 1_000)) < 2 * IDLE_CUT_MS
    cluster.turn(2_000)
    assert min(between_cuts_ms(cluster, 4 * REST_CUT_MS)) >= REST_CUT_MS
    fed_ms = cluster.now_ms
    cluster.feed("orders", orders(2)[1:])
    cluster.turn(100)
    assert cut_ms(cluster)[-1] - fed_ms <= 10
    assert max(between_cuts_ms(cluster, 4_000)) < 2 * IDLE_CUT_MS, "and then it is awake again"


def test_an_open_window_closes_after_a_silence_as_soon_as_its_source_says() -> None:
    cluster = MemoryCluster(
        JOB.replace("input: orders", "input: orders, window: {size_s: 30}").replace(
            "unit: ms", "unit: ms, close_after_idle_s: 30"
        )
    )
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.feed("orders", orders(1))
    cluster.turn(int(REST_AFTER_MS) + 4_000)
    assert max(between_cuts_ms(cluster, 10_000)) < 2 * IDLE_CUT_MS
    cluster.until(lambda: len(cluster.rows("counts")) > 0)
    assert cluster.now_ms <= 30_000 + 4 * IDLE_CUT_MS
    cluster.turn(4_000)
    assert min(between_cuts_ms(cluster, 4 * REST_CUT_MS)) >= REST_CUT_MS, "now nobody waits for anything"


def test_units_without_data_seldom_checkpoint(cluster: MemoryCluster) -> None:
    cluster.turn(4 * INTERVAL_MS)
    before = markers(cluster)
    cluster.turn(2 * REST_MS)
    assert markers(cluster).keys() == before.keys()
    for unit, batches in markers(cluster).items():
        rest = len(batches) - len(before[unit])
        assert 0 < rest <= 2, f"{unit}: not after every empty batch"


def test_a_record_after_a_rest_is_under_a_marker_within_an_interval_or_two(cluster: MemoryCluster) -> None:
    cluster.turn(REST_MS)
    before = markers(cluster)
    cluster.feed("orders", orders(2)[1:])
    cluster.turn(2 * INTERVAL_MS)
    for unit, batches in markers(cluster).items():
        assert len(batches) > len(before[unit]), unit


def test_a_worker_at_rest_waits_for_a_cut_that_is_under_way(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = cluster.workers["w1"]
    cluster.turn(REST_MS)
    copies = [copy.running for copy in worker._copies.here.values() if copy.running is not None]

    def cut_under_way() -> bool:
        """And no call, of a trim for example, for whose outcome it would look sooner."""
        calls = any(blocking.look_ms() < math.inf for blocking in worker._blocking)
        quiet = cluster.now_ms - worker._data_ms > QUIET_MS
        return any(one.condition.awaits_control for one in copies) and quiet and not calls

    cluster.until(cut_under_way)
    waits: list[float] = []
    monkeypatch.setattr(SharedReader, "poll", lambda reader, wait_s: waits.append(wait_s))
    worker._read()
    assert waits == [FIRST_MS / 1000, 0], "it waits for the cut, and looks at the data"


def test_a_suspended_copy_costs_its_worker_no_looks_beside_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looked each 4 ms while data came, and each 10 ms when none did."""
    cluster = MemoryCluster(JOB)
    first, second = cluster.start("w1"), cluster.start("w2")
    reading, counting = cluster.units
    cluster.place({reading: [first, (second, SECONDARIES["hot"])], counting: [second, (first, SECONDARIES["hot"])]})
    cluster.turn(REST_MS)
    for worker in (first, second):
        cluster.until(partial(nothing_under_way, worker))
        polled: list[tuple[bool, float]] = []
        monkeypatch.setattr(SharedReader, "poll", lambda one, s, w=worker, p=polled: p.append((one is w._data, s)))
        for since_ms in (0.0, 2 * QUIET_MS):
            worker._data_ms, worker.next_deadline = cluster.now_ms - since_ms, cluster.now_ms + MAX_WAIT_MS
            worker._read()
        monkeypatch.undo()
        assert polled == [(True, MAX_WAIT_MS / 1000), (False, 0)] * 2, "it waits for data, to which assignments come"


def nothing_under_way(worker: Worker) -> bool:
    copies = [copy.running for copy in worker._copies.here.values()]
    return not any(one is not None and one.condition.awaits_control for one in copies)
