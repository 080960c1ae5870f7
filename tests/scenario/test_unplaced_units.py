"""A unit has no place: queries that do not need it continue, and what waits for it takes bounded memory."""

from __future__ import annotations

import pytest

from schemas.heartbeats import Heartbeat, encode
from schemas.topics import Partition
from services.kernel.dataflow import merging
from services.worker.core.cutting import MAX_LEAD_BATCHES
from services.worker.process.loop import Worker
from tests.support.memory_cluster import MemoryCluster

JOB = """
name: numbers
sources: {numbers: {topic: numbers, fields: {x: int, y: string}}}
operators:
  fine: {aggregate: {n: "count()"}, key: [y], input: numbers}
  poor: {aggregate: {n: "count()"}, key: [y], input: numbers}
  next: {filter: "n > 0", input: poor}
queries:
  fine: {input: fine, sink: {topic: fine}}
  next: {input: next, sink: {topic: next}}
placement: {units: [[numbers], [fine, sink-fine], [poor], [next, sink-next]]}
"""
SHARED = """
name: numbers
sources: {numbers: {topic: numbers, fields: {x: int, y: string}, parallelism: 2}}
operators:
  poor: {aggregate: {n: "count()"}, key: [y], input: numbers, parallelism: 2, emit: each}
  all: {filter: "n > 0", input: poor, parallelism: 1}
  fine: {filter: "x >= 0", input: numbers}
queries:
  fine: {input: fine, sink: {topic: fine}}
  poor: {input: all, sink: {topic: poor}}
placement: {units: [[numbers, fine, sink-fine], [poor], [all, sink-poor]]}
"""
BEAT_MS = 100


def beat(made: MemoryCluster, *workers: Worker) -> None:
    for worker in workers:
        record = Heartbeat(worker.identity.worker, worker.identity.incarnation, made.now_ms, 0, copies=worker.copies())
        made._append(Partition(made.cluster.heartbeats, 0), encode(record))


def live(made: MemoryCluster, turns: int, *workers: Worker) -> None:
    """Records come every 20 ms, and heartbeats of these workers."""
    for turn in range(turns // 20):
        if turn % (BEAT_MS // 20) == 0:
            beat(made, *workers)
        for source in made.plan.sources[:1]:
            for index in range(len(source.owners)):
                made.feed("numbers", [{"x": turn, "y": "ab"[turn % 2]}], index)
        made.turn(20)


def fed(made: MemoryCluster) -> int:
    count = sum(len(owned) for owned in made.plan.sources[0].owners)
    return sum(made.log.offsets([Partition("numbers", i) for i in range(count)], "end").values())


def counted(made: MemoryCluster, query: str) -> int:
    """Records that have reached a query which counts them by y."""
    rows = made.rows(query)
    return sum(max((row["n"] for row in rows if row["y"] == y), default=0) for y in "ab")


def leaders(made: MemoryCluster, gone: str) -> tuple[Worker, Worker]:
    """One runs all units but those named so, which the other one runs."""
    one, two = made.start("one"), made.start("two")
    made.place({unit: [two if unit.startswith(gone) else one] for unit in made.units})
    return one, two


def test_a_query_that_does_not_need_the_unit_continues_and_the_other_one_catches_up() -> None:
    made = MemoryCluster(JOB)
    one, two = leaders(made, "poor")
    live(made, 1_000, one, two)
    made.kill("two")
    live(made, 3 * 20 * MAX_LEAD_BATCHES + 6_000, one)
    before = len(made.rows("fine"))
    live(made, 1_000, one)
    assert len(made.rows("fine")) - before >= 40, "it delivers as records come"
    assert counted(made, "fine") >= fed(made) - 5
    stopped = counted(made, "next")
    two = made.start("two")
    made.place({unit: [two if unit.startswith("poor") else one] for unit in made.units})
    live(made, 4_000, one, two)
    assert stopped < 100 < counted(made, "next")
    made.run_to_end()
    assert counted(made, "fine") == counted(made, "next") == fed(made)


def test_a_unit_that_is_slow_but_there_holds_the_sources_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MemoryCluster(JOB)
    one, two = leaders(made, "poor")
    live(made, 500, one, two)
    monkeypatch.setattr(two, "turn", lambda: False)
    live(made, 20 * MAX_LEAD_BATCHES + 8_000, one, two)
    assert counted(made, "fine") < fed(made) - MAX_LEAD_BATCHES


def test_what_waits_for_a_unit_in_a_shared_partition_keeps_little_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both tasks of `poor` write to the partition that `all` reads; one of them has no place."""
    monkeypatch.setattr(merging, "MAX_AHEAD_BATCHES", 20)
    made = MemoryCluster(SHARED)
    one, two = leaders(made, "poor-1")
    live(made, 500, one, two)
    made.kill("two")
    live(made, 20 * MAX_LEAD_BATCHES + 8_000, one)
    assert len(made.rows("fine")) >= fed(made) - 10
    held = [
        len(writer.batches)
        for copy in one._copies.here.values()
        if copy.running is not None
        for partition in copy.running.intake.inputs._partitions.values()
        for writer in partition._writers.values()
    ]
    assert max(held) == 20
    two = made.start("two")
    made.place({unit: [two if unit.startswith("poor-1") else one] for unit in made.units})
    live(made, 4_000, one, two)
    made.run_to_end()
    assert len(made.rows("poor")) == counted(made, "poor") == fed(made)
