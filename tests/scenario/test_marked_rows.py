"""What Spark writes in real-time mode comes into the job's batches once, whatever happens to workers and drivers.

PROTOCOL 12: the test stands in for drivers, and writes what Spark's sink would write.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.assignments import Flags
from holdfast.schemas.commits import Commit, Fence, encode
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import REAL_TIME
from holdfast.schemas.topics import Partition
from holdfast.services.audit.replay import replay
from holdfast.services.kernel.codecs.marked import BEAT, ORIGIN, REACHED, STAMP
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from tests.support.examples import examples
from tests.support.memory_cluster import MemoryCluster

JOB = """
name: live
sources:
  s: {topic: in, fields: {x: int, at: timestamp}, event_time: at, allowed_lateness_s: 0, idle_after_s: null}
operators:
  heavy: {spark: {sql: "SELECT x, at FROM input"}, input: s}
  sums: {aggregate: {n: "count()", total: "sum(x)"}, input: heavy, window: {size_s: 10}}
queries:
  plain: {input: heavy, sink: {topic: plain}}
  sums: {input: sums, sink: {topic: sums}}
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 50}}
keep_cuts: true
"""
SECOND_US = 1_000_000
HOT = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)


def describe(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    if kind != "spark":
        return catalogue.describe(kind, params, inputs)
    return Stream({"x": "int", "at": "timestamp"}, hosted={"mode": REAL_TIME, "time": "at"})


class StandIn:
    """A driver. Row x is of second x, and of the record at offset x."""

    def __init__(self, cluster: MemoryCluster, epoch: int) -> None:
        self._log, self._topic, self._epoch = cluster.log, cluster.topics.commits("heavy"), epoch
        self._appender = cluster.log.appender(f"driver-{epoch}")
        self._append(0, encode(Fence(epoch, Id(f"d{epoch}", 0))))

    def _append(self, partition: int, value: bytes) -> None:
        self._appender.append(Partition(self._topic, partition), value)

    def end(self) -> int:
        lane = Partition(self._topic, 1)
        return self._log.offsets([lane], "end")[lane]

    def write(self, first: int, stop: int) -> None:
        for x in range(first, stop):
            time = x * SECOND_US
            said = {ORIGIN: x, REACHED: time, STAMP: time, "_time": time, BEAT: False, "c0": x, "c1": time}
            self._append(1, json.dumps(said).encode())

    def finish(self) -> None:
        start, stop = ({self._topic: {1: offset}} for offset in (0, self.end()))
        self._append(0, encode(Commit(self._epoch, 1, 0, start, stop, (), 0, Id("last", 1), final=True)))


def new_cluster() -> MemoryCluster:
    return MemoryCluster(JOB, describe=describe)


def to_the_end(cluster: MemoryCluster, driver: StandIn, count: int) -> None:
    cluster.control("drain")
    driver.finish()
    cluster.until(cluster.ended)
    assert Counter(row["x"] for row in cluster.rows("plain")) == Counter(range(count))
    windows = [range(x, min(x + 10, count)) for x in range(0, count, 10)]
    assert Counter((row["n"], row["total"]) for row in cluster.rows("sums")) == Counter(
        (len(one), sum(one)) for one in windows
    )
    report = replay(cluster.log, cluster.cluster, "live")
    assert (report.rows.lost, report.rows.duplicated, report.rows.wrong) == (0, 0, 0)


def test_rows_come_out_once_and_windows_close_by_the_time_of_the_rows() -> None:
    cluster = new_cluster()
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    driver = StandIn(cluster, 1)
    driver.write(0, 25)
    cluster.until(lambda: len(cluster.rows("plain")) == 25)
    cluster.until(lambda: len(cluster.rows("sums")) == 2)
    driver.write(25, 40)
    to_the_end(cluster, driver, 40)


def test_rows_of_a_zombie_behind_the_last_commit_do_not_count() -> None:
    cluster = new_cluster()
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    zombie, successor = StandIn(cluster, 1), StandIn(cluster, 2)
    zombie.write(0, 10)
    successor.write(10, 30)
    successor.finish()
    zombie.write(10, 50)
    cluster.control("drain")
    cluster.until(cluster.ended)
    assert Counter(row["x"] for row in cluster.rows("plain")) == Counter(range(30))


@examples(each_run=12, with_long=60)
@given(st.lists(st.tuples(st.integers(1, 120), st.sampled_from(["worker", "driver", "both"])), max_size=4))
def test_workers_and_drivers_may_die_at_any_time(faults: list[tuple[int, str]]) -> None:
    cluster = new_cluster()
    first, second = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [first, (second, HOT)] for unit in cluster.units})
    driver, epoch, count = StandIn(cluster, 1), 1, 0
    for wait, who in faults:
        driver.write(count, count + 12)
        count += 12
        cluster.turn(wait)
        if who != "worker":
            epoch, zombie = epoch + 1, driver
            driver = StandIn(cluster, epoch)
            driver.write(count - 5, count + 3)
            zombie.write(count, count + 7)
            count += 7
        if who != "driver":
            name = first.identity.worker
            cluster.kill(name)
            first, second = second, cluster.start(name)
            cluster.place({unit: [first, (second, HOT)] for unit in cluster.units})
    driver.write(count, count + 7)
    to_the_end(cluster, driver, count + 7)
