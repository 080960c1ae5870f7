"""A source's topic gets new partitions while the job runs: their owners read them, from their first record."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.schemas import cuts
from holdfast.schemas.assignments import Flags
from holdfast.schemas.cuts import Cut
from holdfast.schemas.topics import Partition
from holdfast.services.audit.replay import replay
from holdfast.services.worker.host.topic_watch import LOOK_MS
from tests.support.memory_cluster import GENERATION, MemoryCluster

JOB = """
name: grown
keep_cuts: true
sources:
  orders: {topic: orders, fields: {user: int, amount: int}, parallelism: 2}
operators:
  totals: {aggregate: {n: "count()"}, key: [user], input: orders}
fault_tolerance: {default: {scheme: none}}
queries:
  raw: {input: orders, sink: {topic: raw}}
  totals: {input: totals, sink: {topic: totals}}
"""
TIMED = """
name: timed
keep_cuts: true
sources:
  orders: {topic: orders, fields: {x: int, at: timestamp}, event_time: at, unit: ms, idle_after_s: 5}
operators:
  windows: {aggregate: {n: "count()"}, input: orders, window: {size_s: 1}}
fault_tolerance: {default: {scheme: none}}
queries:
  windows: {input: windows, sink: {topic: windows}}
"""
SECONDARIES = {
    "cold": Flags(state="synced", receive=False, process=False, send=False, commit=False, checkpoint_target=True),
    "hot": Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True),
    "active": Flags(commit=False),
}


def orders(count: int, start: int = 0) -> list[dict[str, int]]:
    return [{"user": i % 7, "amount": i} for i in range(start, start + count)]


def amounts(cluster: MemoryCluster) -> Counter[int]:
    return Counter(row["amount"] for row in cluster.rows("raw"))


def once(*stretches: range) -> Counter[int]:
    return Counter(amount for one in stretches for amount in one)


def started(job: str = JOB) -> MemoryCluster:
    cluster = MemoryCluster(job)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    return cluster


def is_exact(cluster: MemoryCluster) -> bool:
    report = replay(cluster.log, cluster.cluster, f"{cluster.plan.job}@{GENERATION}")
    assert report.rows.results > 0
    return report.exact


def joined(cluster: MemoryCluster) -> dict[int, tuple[str, int]]:
    """By partition, the task that first names it and where that begins."""
    found: dict[int, tuple[str, int]] = {}
    for message in cluster.log.scan(Partition(cluster.topics.cuts, 0)):
        record = cuts.decode(message.value() or b"")
        if isinstance(record, Cut):
            for r in record.ranges:
                found.setdefault(r.partition, (record.task, r.start))
    return found


def test_new_partitions_are_read_from_their_first_record_while_the_job_runs() -> None:
    cluster = started()
    cluster.feed("orders", orders(50))
    cluster.until(lambda: len(cluster.rows("raw")) == 50)

    cluster.log.grow("orders", 5)
    for partition in (2, 3, 4):
        cluster.feed("orders", orders(20, 1_000 * partition), partition)
    cluster.until(lambda: len(cluster.rows("raw")) == 110)
    cluster.feed("orders", orders(20, 5_000), 4)
    cluster.run_to_end()
    assert amounts(cluster) == once(range(50), *(range(1_000 * p, 1_000 * p + 20) for p in (2, 3, 4, 5)))
    owners = {2: ("orders-0", 0), 3: ("orders-1", 0), 4: ("orders-0", 0)}
    assert {p: joined(cluster)[p] for p in owners} == owners
    assert is_exact(cluster)


def test_a_copy_that_takes_over_continues_with_partitions_that_joined_before() -> None:
    cluster = started()
    cluster.log.grow("orders", 3)
    cluster.feed("orders", orders(30), 2)
    cluster.until(lambda: len(cluster.rows("raw")) == 30)
    cluster.until(lambda: all(copy.durable > 0 for copy in cluster.workers["w1"].copies()))
    cluster.kill("w1")
    worker = cluster.start("w2")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.feed("orders", orders(30, 100), 2)
    cluster.run_to_end()
    assert amounts(cluster) == once(range(30), range(100, 130))
    assert is_exact(cluster)


@pytest.mark.parametrize("secondary", SECONDARIES)
def test_a_standby_takes_over_partitions_that_joined_while_it_slept(secondary: str) -> None:
    cluster = MemoryCluster(JOB)
    first, second = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [first, (second, SECONDARIES[secondary])] for unit in cluster.units})
    cluster.feed("orders", orders(30))
    cluster.until(lambda: len(cluster.rows("raw")) == 30)
    cluster.log.grow("orders", 4)
    cluster.feed("orders", orders(30, 100), 3)
    cluster.until(lambda: len(cluster.rows("raw")) == 60)
    cluster.feed("orders", orders(30, 200), 2)
    cluster.kill("w1")
    cluster.place({unit: [second] for unit in cluster.units})
    cluster.run_to_end()
    assert amounts(cluster) == once(range(30), range(100, 130), range(200, 230))
    assert is_exact(cluster)


def test_partitions_that_appear_while_nobody_runs_the_job_are_read_by_whoever_takes_over() -> None:
    cluster = started()
    cluster.feed("orders", orders(30))
    cluster.until(lambda: len(cluster.rows("raw")) == 30)
    cluster.kill("w1")
    cluster.log.grow("orders", 6)
    cluster.feed("orders", orders(30, 100), 5)
    worker = cluster.start("w2")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.run_to_end()
    assert amounts(cluster) == once(range(30), range(100, 130))
    assert is_exact(cluster)


def test_a_drain_reads_every_partition_that_there_is_by_then() -> None:
    cluster = started()
    cluster.feed("orders", orders(30))
    cluster.until(lambda: len(cluster.rows("raw")) == 30)
    cluster.log.grow("orders", 4)
    cluster.feed("orders", orders(30, 100), 2)
    cluster.feed("orders", orders(30, 200), 3)
    cluster.control("drain")
    cluster.log.grow("orders", 5)
    cluster.feed("orders", orders(30, 300), 4)
    cluster.until(cluster.ended)
    assert amounts(cluster) == once(range(30), range(100, 130), range(200, 230))
    assert is_exact(cluster)


def test_two_sources_of_one_topic_both_read_its_new_partitions() -> None:
    cluster = started("""
name: twice
keep_cuts: true
sources:
  a: {topic: in, fields: {amount: int}}
  b: {topic: in, fields: {amount: int}}
operators:
  both: {union: [a, b]}
fault_tolerance: {default: {scheme: none}}
queries:
  raw: {input: both, sink: {topic: raw}}
""")
    cluster.log.grow("in", 3)
    cluster.feed("a", [{"amount": i} for i in range(40)], 2)
    cluster.run_to_end()
    assert amounts(cluster) == once(range(40), range(40))
    assert is_exact(cluster)


def test_a_new_partition_makes_nothing_late_and_holds_time_back_until_it_is_idle() -> None:
    """It joins without a time: windows wait for its first record, or until it is idle."""
    cluster = started(TIMED)
    cluster.feed("orders", [{"x": 1, "at": 1_000 * second} for second in range(10)])
    cluster.until(lambda: len(cluster.rows("windows")) == 9)
    cluster.log.grow("orders", 2)
    cluster.turn(int(LOOK_MS) + 600)
    assert 1 in joined(cluster)
    cluster.feed("orders", [{"x": 1, "at": 1_000 * second} for second in range(10, 20)])
    cluster.turn(1_000)
    assert len(cluster.rows("windows")) == 9, "the new partition may still bring older ones"
    cluster.feed("orders", [{"x": 1, "at": 1_000 * second} for second in range(9, 12)], 1)
    cluster.until(lambda: len(cluster.rows("windows")) == 11)
    for at in (30_000, 30_500):
        cluster.feed("orders", [{"x": 1, "at": at}])
        cluster.turn(4_000)
    cluster.feed("orders", [{"x": 1, "at": 31_000}])
    cluster.until(lambda: len(cluster.rows("windows")) >= 19)
    cluster.run_to_end()
    counts = {row["window_start"]: row["n"] for row in cluster.rows("windows")}
    assert sum(counts.values()) == 26, "none was late"
    assert is_exact(cluster)


def test_the_topic_of_a_table_that_grows_stops_the_job_and_says_why() -> None:
    cluster = started("""
name: joined
sources:
  orders: {topic: orders, fields: {user: int, amount: int}}
  users: {topic: users, fields: {user: int, name: string}, table: [user]}
operators:
  named: {join: {left: orders, right: users, "on": [user]}}
fault_tolerance: {default: {scheme: none}}
queries:
  raw: {input: named, sink: {topic: raw}}
""")
    cluster.feed("users", [{"user": 1, "name": "a"}])
    cluster.feed("orders", [{"user": 1, "amount": 5}])
    cluster.until(lambda: len(cluster.rows("raw")) == 1)
    cluster.log.grow("users", 2)
    cluster.until(lambda: any(copy.state == "failed" for copy in cluster.workers["w1"].copies()))
    (failed,) = [copy for copy in cluster.workers["w1"].copies() if copy.state == "failed"]
    assert "topic users of a table has grown from 1 to 2 partitions" in failed.error
