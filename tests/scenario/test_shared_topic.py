"""Two sources of one topic: their cuts may stand apart, a restart brings each what it lacks, none waits for another."""

from __future__ import annotations

from collections import Counter

from holdfast.schemas import cuts
from holdfast.schemas.assignments import Flags
from holdfast.schemas.cuts import Cut, Range
from holdfast.schemas.decided import Id
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.cuts import CutLog
from holdfast.services.decisions.shares import beginning
from tests.support.memory_cluster import MemoryCluster

SOURCES = """
batch_interval_ms: 5
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 50}}
sources:
  a: {topic: in, fields: {x: int}}
  b: {topic: in, fields: {x: int}}
"""
JOB = f"""
name: twice
keep_cuts: true
{SOURCES}
operators:
  both: {{union: [a, b]}}
queries:
  both: {{input: both, sink: {{topic: both}}}}
"""
APART = f"""
name: apart
max_batch_records: 10
{SOURCES}
queries:
  a: {{input: a, sink: {{topic: out-a}}}}
  b: {{input: b, sink: {{topic: out-b}}}}
"""


def folded(cluster: MemoryCluster) -> CutLog:
    log = CutLog(beginning({"a-0": {0: 0}, "b-0": {0: 0}}))
    for message in cluster.log.scan(Partition(cluster.topics.cuts, 0)):
        log.read(message.offset(), cuts.decode(message.value() or b""))
    return log


def cut_nothing(cluster: MemoryCluster, task: str) -> None:
    """As another copy may that has fetched nothing yet."""
    before = folded(cluster).task(task)
    same = tuple(Range(r.partition, r.stop, r.stop, r.newest_us) for r in before.ranges)
    record = Cut(task, before.batch + 1, same, before.watermark, Id("other", 1), before.last)
    cluster.log.put(Partition(cluster.topics.cuts, 0), cuts.encode(record), None, None)


def test_a_restart_reads_from_the_lower_of_their_positions() -> None:
    cluster = MemoryCluster(JOB)
    (unit,) = cluster.units
    cluster.place({unit: [cluster.start("w1")]})
    cluster.feed("a", [{"x": x} for x in range(5)])
    cluster.until(lambda: len(cluster.rows("both")) == 10)

    cut_nothing(cluster, "a-0")
    cluster.feed("a", [{"x": x} for x in range(5, 12)])
    cluster.until(lambda: folded(cluster).task("b-0").batch == folded(cluster).task("a-0").batch)
    cluster.control("pause")
    a, b = folded(cluster).task("a-0"), folded(cluster).task("b-0")
    assert (a.batch, a.ranges[0].stop, b.ranges[0].stop) == (b.batch, 5, 12)
    cluster.until(lambda: all(copy.durable == a.batch for copy in cluster.workers["w1"].copies()))

    cluster.kill("w1")
    cluster.place({unit: [cluster.start("w2")]})
    cluster.run_to_end()
    assert Counter(row["x"] for row in cluster.rows("both")) == dict.fromkeys(range(12), 2)


def test_a_copy_that_sleeps_beside_a_topic_starves_no_other_reader_of_it() -> None:
    cluster = MemoryCluster(APART)
    first, second = cluster.start("w1"), cluster.start("w2")
    hot = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)
    (of_a,) = (unit for unit in cluster.units if unit.startswith("a"))
    cluster.place({unit: [first, (second, hot)] if unit == of_a else [second] for unit in cluster.units})
    cluster.turn(50)
    del cluster.workers["w1"]  # frozen: no checkpoint of it lets the suspended copy drop anything
    for number in range(0, 500, 20):
        cluster.feed("a", [{"x": x} for x in range(number, number + 20)])
        cluster.turn(20)
    cluster.until(lambda: len(cluster.rows("b")) == 500)
    cluster.place({unit: [second] for unit in cluster.units})
    cluster.run_to_end()
    assert [row["x"] for row in cluster.rows("a")] == [row["x"] for row in cluster.rows("b")] == list(range(500))
