"""A history in memory is the same whether workers with nothing to do take their turns or leave them out."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from holdfast.services.recovery import replica
from tests.support.driven_cluster import DrivenCluster
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, orders
from tests.support.sleepers import Sleepers

REST_MS = 3_000


def killed_and_at_rest() -> MemoryCluster:
    """Transactions take turns; a worker is killed and started again; then nothing comes for some time."""
    cluster = MemoryCluster(JOB, delivery_turns=3)
    workers = [cluster.start(f"w{number}") for number in range(2)]
    cluster.place({unit: [workers[number % 2]] for number, unit in enumerate(cluster.units)})
    fed = orders(120)
    for index in (0, 1):
        cluster.feed("orders", fed[index:60:2], index)
    cluster.turn(40)
    cluster.kill("w1")
    again = cluster.start("w1")
    cluster.place({unit: [again] for number, unit in enumerate(cluster.units) if number % 2})
    cluster.turn(REST_MS)
    for index in (0, 1):
        cluster.feed("orders", fed[60 + index :: 2], index)
    cluster.run_to_end()
    return cluster


def leaders_away_and_new_partitions() -> MemoryCluster:
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.feed("orders", orders(30), 0)
    cluster.turn(20)
    away = set(cluster.log.offsets(list(cluster.starts_of_data()), "end"))
    cluster.log.away |= away
    cluster.turn(200)
    cluster.log.away.clear()
    cluster.log.grow("orders", 4)
    cluster.feed("orders", orders(60)[30:], 3)
    cluster.turn(REST_MS)
    cluster.run_to_end()
    return cluster


def decided_by_replicas() -> MemoryCluster:
    cluster = DrivenCluster(JOB.replace("queries:", "fault_tolerance: {default: {scheme: hybrid}}\nqueries:"))
    for index in (0, 1):
        cluster.feed("orders", orders(60)[index::2], index)
    cluster.turn(50)
    cluster.kill("w2")
    cluster.until(cluster.protected)
    cluster.freeze("w1")
    cluster.turn(400)
    cluster.thaw("w1")
    cluster.turn(300)
    return cluster


Written = list[tuple[str, int, int, object, object, object, object]]


def written(cluster: MemoryCluster) -> Written:
    return [
        (topic, index, one.offset(), one.timestamp(), one.key(), one.value(), one.headers())
        for topic, partitions in sorted(cluster.log._topics.items())
        for index, stored in enumerate(partitions)
        for one in stored.messages
    ]


@pytest.mark.parametrize(
    ("history", "least"), [(killed_and_at_rest, 5), (leaders_away_and_new_partitions, 5), (decided_by_replicas, 1.5)]
)
def test_a_history_is_the_same_without_its_idle_turns(
    history: Callable[[], MemoryCluster], least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "time", SimpleNamespace(time=lambda: 1_700_000_000.0, monotonic_ns=lambda: 0))
    with_less = history()
    monkeypatch.setattr(Sleepers, "_wakes_ms", lambda *_: float("-inf"))
    with_all = history()
    assert with_less.now_ms == with_all.now_ms
    assert written(with_less) == written(with_all)
    assert with_all._sleepers.taken > least * with_less._sleepers.taken, "turns are left out"
