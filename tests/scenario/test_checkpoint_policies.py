"""Each checkpoint policy on whole workers: its captures come when it says, and a failover loses and doubles nothing.

MECHANISMS S4, C3 and C6, on workers with a log in memory. Heartbeats, which no thread sends here, the test appends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest

from holdfast.schemas import checkpoints, heartbeats
from holdfast.schemas.assignments import PRIMARY, Flags
from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.topics import Partition
from holdfast.services.worker.checkpoint.policies.catalogue import POLICIES
from holdfast.services.worker.checkpoint.scheduler import Scheduler
from holdfast.services.worker.checkpoint.writer import Moment
from holdfast.services.worker.process.loop import Worker
from holdfast.services.worker.unit.checkpoints.checkpoints import Checkpoints
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.turns.policy_view import PolicyView
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, Order, check, orders

STANDBY = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)
IDLE = ("idle-minmax", "idle-roundrobin")
BEAT_MS = 100
Captures = list[tuple[str, float, int]]


def job(policy: str, **more: object) -> str:
    own = "".join(f", {name}: {value}" for name, value in more.items())
    checkpoint = f"{{policy: {policy}{own}}}"
    return JOB + f"batch_interval_ms: 20\nfault_tolerance: {{default: {{scheme: none}}, checkpoint: {checkpoint}}}\n"


def feed(cluster: MemoryCluster, fed: list[Order]) -> None:
    for partition in (0, 1):
        cluster.feed("orders", fed[partition::2], partition)


def turn(cluster: MemoryCluster, turns: int, *, beats: bool = True) -> None:
    """With heartbeats of every worker each 100 ms."""
    for _ in range(turns):
        cluster.turn()
        if beats and cluster.now_ms % BEAT_MS == 0:
            for worker in cluster.workers.values():
                beat(cluster, worker)


def beat(cluster: MemoryCluster, worker: Worker) -> None:
    copies, identity = worker.copies(), worker.identity
    record = Heartbeat(
        identity.worker,
        identity.incarnation,
        cluster.day_ms + cluster.now_ms,
        copies=copies,
        costs=worker.costs([copy.unit for copy in copies]),
    )
    cluster._append(Partition(cluster.cluster.heartbeats, 0), heartbeats.encode(record))


@contextmanager
def watched() -> Iterator[Captures]:
    """Every capture that begins meanwhile: the unit, when, and after which batch."""
    seen: Captures = []
    begin = Checkpoints.begin

    def watch(self: Checkpoints, at: CopyView, moment: Callable[[], Moment]) -> None:
        before = self.captured_ms, self.captured_batch
        begin(self, at, moment)
        if (self.captured_ms, self.captured_batch) != before:
            seen.append((self._key.rpartition("/")[2], at.now_ms, self.captured_batch))

    with mock.patch.object(Checkpoints, "begin", watch):
        yield seen


def by_unit(captures: Captures) -> dict[str, list[tuple[float, int]]]:
    return {unit: [(at_ms, batch) for one, at_ms, batch in captures if one == unit] for unit, _, _ in captures}


def markers(cluster: MemoryCluster) -> dict[str, list[Marker]]:
    found: dict[str, list[Marker]] = {}
    for unit in cluster.plan.units:
        records = cluster.log.scan(Partition(cluster.topics.checkpoints, unit.partition))
        read = [checkpoints.decode(record.value() or b"") for record in records]
        found[unit.name] = [record for record in read if isinstance(record, Marker)]
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_a_standby_that_takes_over_continues_exactly_under_every_policy(policy: str) -> None:
    fed = orders(400)
    cluster = MemoryCluster(job(policy))
    first, second = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [first, (second, STANDBY)] for unit in cluster.units})
    for start in range(0, 200, 20):
        feed(cluster, fed[start : start + 20])
        turn(cluster, 77)
    assert all(batches for batches in markers(cluster).values()), "some unit was never captured"
    cluster.kill("w1")
    cluster.place({unit: [(second, PRIMARY)] for unit in cluster.units})
    for start in range(200, 400, 20):
        feed(cluster, fed[start : start + 20])
        turn(cluster, 77)
    cluster.run_to_end()
    check(cluster.rows, fed)


def run(policy: str, *, turns: int = 3_000, standby: bool = False, beats: bool = True, **settings: object) -> Captures:
    """The captures of the job while an order comes every 20 ms."""
    cluster = MemoryCluster(job(policy, **settings))
    first = cluster.start("w1")
    copies: list[Any] = [first]
    if standby:
        copies.append((cluster.start("w2"), STANDBY))
    cluster.place({unit: copies for unit in cluster.units})
    fed = orders(2 * turns // 20)
    with watched() as captures:
        for start in range(0, len(fed), 2):
            feed(cluster, fed[start : start + 2])
            turn(cluster, 20, beats=beats)
    assert {unit for unit, _, _ in captures} == set(cluster.units)
    return captures


@pytest.mark.parametrize("every", [3, 8])
def test_aligned_captures_every_unit_after_every_nth_batch(every: int) -> None:
    for unit, captures in by_unit(run("aligned", every_batches=every)).items():
        batches = [batch for _, batch in captures]
        assert batches == list(range(every, batches[-1] + 1, every)), unit


def test_synchronous_captures_all_units_when_the_timer_ticks() -> None:
    captures = run("synchronous", interval_ms=300)
    ticks = {at_ms // 300 for _, at_ms, _ in captures}
    units = {unit for unit, _, _ in captures}
    assert all(at_ms % 300 < 25 for _, at_ms, _ in captures), "a batch of 20 ms after the tick at the latest"
    for tick in sorted(ticks)[1:]:
        assert {unit for unit, at_ms, _ in captures if at_ms // 300 == tick} == units


@pytest.mark.parametrize("policy", ["individual", "whole-worker"])
def test_the_interval_is_kept(policy: str) -> None:
    for unit, captures in by_unit(run(policy, interval_ms=300)).items():
        gaps = [later - earlier for (earlier, _), (later, _) in pairwise(captures[1:])]
        assert gaps, unit
        assert all(275 < gap < 350 for gap in gaps), (unit, gaps)


@pytest.mark.parametrize("policy", IDLE)
def test_on_idle_time_no_two_captures_of_a_unit_are_closer_than_the_minimum_interval(policy: str) -> None:
    gaps: dict[int, float] = {}
    for least_ms in (50, 400):
        units = by_unit(run(policy, min_interval_ms=least_ms)).values()
        gaps[least_ms] = min(later - earlier for one in units for (earlier, _), (later, _) in pairwise(one))
    assert gaps[400] >= 400
    assert 50 <= gaps[50] < 400


@pytest.mark.parametrize("policy", IDLE)
def test_a_unit_is_captured_again_once_its_standby_has_confirmed_or_the_maximum_interval_is_over(policy: str) -> None:
    """Without heartbeats the author never hears of a paste; with them it hears within 100 ms or so."""
    silent = by_unit(run(policy, standby=True, beats=False, min_interval_ms=10, max_interval_ms=1_000))
    heard = by_unit(run(policy, standby=True, min_interval_ms=10, max_interval_ms=1_000))
    for unit, captures in silent.items():
        gaps = [later - earlier for (earlier, _), (later, _) in pairwise(captures[1:])]
        assert gaps, unit
        assert all(990 < gap < 1_100 for gap in gaps), (unit, gaps)
    assert min(map(len, heard.values())) >= 1
    assert max(map(len, heard.values())) > 2 * max(map(len, silent.values()))


@pytest.mark.parametrize("policy", IDLE)
def test_a_standby_pastes_while_no_data_wait_at_any_unit_of_its_worker(policy: str) -> None:
    """Where data always wait, a paste comes once the maximum interval is over, and is not lost."""
    cluster = MemoryCluster(job(policy, max_interval_ms=1_500))
    first, second = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [first, (second, STANDBY)] for unit in cluster.units})
    feed(cluster, orders(40))
    turn(cluster, 1_000)

    def applied() -> int:
        return sum(one.applies for one in second.costs([copy.unit for copy in second.copies()]))

    before = applied()
    assert before > 0
    with mock.patch.object(PolicyView, "data_wait", new_callable=mock.PropertyMock, return_value=True):
        feed(cluster, orders(40, seed=1))
        turn(cluster, 1_400)
        assert applied() == before
        turn(cluster, 3_000)
        assert applied() > before


def test_the_policies_of_two_jobs_do_not_mix() -> None:
    """The scheduler asks the policy of the unit's own job."""
    scheduler = Scheduler()
    sights = {}
    for policy in ("sweep", "aligned"):
        cluster = MemoryCluster(job(policy))
        worker = cluster.start("w1")
        cluster.place({unit: [worker] for unit in cluster.units})
        feed(cluster, orders(10))
        turn(cluster, 60)
        running = next(copy.running for copy in worker._copies.here.values() if copy.running is not None)
        sights[policy] = running.policy_view
        scheduler.join(policy, running.policy_view)
    assert sights["aligned"].batch % 10 > 0
    assert scheduler.capture("aligned", 1e6) is None
    assert scheduler.capture("sweep", 1e6) is not None
