"""A unit behind a window is said to be active once it could deliver, and not when a window closes."""

from __future__ import annotations

from holdfast.schemas import events
from holdfast.schemas.assignments import Flags
from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import START_MS, orders

YEARLY = """
name: orders
sources:
  orders: {topic: orders, fields: {item: string, at: timestamp}, event_time: at, unit: ms}
operators:
  yearly: {aggregate: {n: "count()"}, key: [item], input: orders, window: {size_s: 31536000}, emit: final}
fault_tolerance: {default: {scheme: none}}
queries:
  years: {input: yearly, sink: {topic: years}}
"""
SUSPENDED = Flags(commit=False, process=False, send=False)


def active(cluster: MemoryCluster, worker: str) -> list[Event]:
    found = [events.decode(one.value() or b"") for one in cluster.log.scan(Partition(cluster.cluster.events, 0))]
    return [one for one in found if (one.kind, one.worker) == ("unit-active", worker)]


def test_a_takeover_is_over_though_no_window_has_closed() -> None:
    cluster = MemoryCluster(YEARLY)
    leader, standby = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [leader, (standby, SUSPENDED)] for unit in cluster.units})
    fed = [{"item": one["item"], "at": one["at"]} for one in orders(60)]
    assert max(one["at"] for one in fed) < START_MS + 31_536_000_000 // 2
    cluster.feed("orders", fed[:30])
    cluster.turn(1_500)
    assert [one.phases_ms.keys() for one in active(cluster, "w1")] == [
        {"activation", "replay", "first_output", "recovered"}
    ]
    cluster.kill("w1")
    cluster.place({unit: [standby] for unit in cluster.units})
    cluster.until(lambda: not any(one.condition.busy for one in standby._running()))
    cluster.feed("orders", fed[30:])
    cluster.turn(1_500)
    assert not cluster.rows("years")
    (taken_over,) = active(cluster, "w2")
    assert taken_over.phases_ms.keys() == {"activation", "replay", "first_output", "recovered"}
    assert taken_over.phases_ms["first_output"] < 1_500
