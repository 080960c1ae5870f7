"""A unit has no place: queries that do not need it continue, and what waits for it takes bounded memory."""

from __future__ import annotations

import pytest

from holdfast.schemas.heartbeats import Exit, Heartbeat, encode
from holdfast.schemas.topics import Partition
from holdfast.services.decisions import cut_snapshots
from holdfast.services.kernel.dataflow import input_partition
from holdfast.services.worker.core import latency
from holdfast.services.worker.core.cut_rhythm import MAX_LEAD_BATCHES
from holdfast.services.worker.process.loop import Worker
from holdfast.services.worker.unit.inputs import intake
from tests.support.memory_cluster import MemoryCluster
from tests.support.reached import reached_bytes

JOB = """
name: numbers
sources: {numbers: {topic: numbers, fields: {x: int, y: string}}}
operators:
  fine: {aggregate: {n: "count()"}, key: [y], input: numbers}
  poor: {aggregate: {n: "count()"}, key: [y], input: numbers}
  next: {filter: "n > 0", input: poor}
fault_tolerance: {default: {scheme: none}}
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
fault_tolerance: {default: {scheme: none}}
queries:
  fine: {input: fine, sink: {topic: fine}}
  poor: {input: all, sink: {topic: poor}}
placement: {units: [[numbers, fine, sink-fine], [poor], [all, sink-poor]]}
"""
JOINED = """
name: numbers
sources: {numbers: {topic: numbers, fields: {x: int, y: string}}}
operators:
  fine: {aggregate: {n: "count()"}, key: [y], input: numbers}
  even: {filter: "x % 2 = 0", input: numbers}
  odd: {filter: "x % 2 = 1", input: numbers}
  both: {union: [even, odd]}
  counted: {aggregate: {n: "count()"}, key: [y], input: both}
fault_tolerance: {default: {scheme: none}}
queries:
  fine: {input: fine, sink: {topic: fine}}
  both: {input: counted, sink: {topic: both}}
placement: {units: [[numbers], [fine, sink-fine], [even], [odd], [both, counted, sink-both]]}
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
    live(made, 2 * 20 * MAX_LEAD_BATCHES + 2_500, one)
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


def test_no_query_stops_while_it_is_found_out_that_a_process_has_ended() -> None:
    """Sources would reach their lead after 1.3 s; its parent has said it, so nobody waits for heartbeats."""
    made = MemoryCluster(JOB)
    one, two = leaders(made, "poor")
    live(made, 1_000, one, two)
    made.kill("two")
    gone = Exit("two", two.identity.incarnation, made.now_ms)
    made._append(Partition(made.cluster.heartbeats, 0), encode(gone))
    for _ in range(15):
        before = len(made.rows("fine"))
        live(made, 200, one)
        assert len(made.rows("fine")) - before >= 8, "it delivers as records come"
    assert fed(made) - counted(made, "next") > MAX_LEAD_BATCHES


def test_a_waiting_unit_takes_no_more_memory_however_long_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """`both` gets frames of `even`, and waits for those of `odd`. All that the worker holds is counted."""
    monkeypatch.setattr(intake, "MAX_INPUT_BATCHES", 40)
    monkeypatch.setattr(cut_snapshots, "KEPT_CUTS", 20)
    monkeypatch.setattr(latency, "MOST_DONE", 20)
    made = MemoryCluster(JOINED)
    one, two = leaders(made, "odd")
    live(made, 500, one, two)
    made.kill("two")
    sizes = []
    for ms in (4_000, 2_000, 2_000):
        live(made, ms, one)
        sizes.append(reached_bytes(one, beside=(made.log,)))
    assert counted(made, "fine") >= fed(made) - 5
    assert sizes[2] < 1.05 * sizes[1], sizes
    two = made.start("two")
    made.place({unit: [two if unit.startswith("odd") else one] for unit in made.units})
    live(made, 3_000, one, two)
    made.run_to_end()
    assert counted(made, "both") == counted(made, "fine") == fed(made)


def test_a_unit_that_is_slow_but_there_holds_the_sources_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MemoryCluster(JOB + "batch_interval_ms: 10\n")
    one, two = leaders(made, "poor")
    live(made, 500, one, two)
    monkeypatch.setattr(two, "turn", lambda: False)
    live(made, 20 * MAX_LEAD_BATCHES + 8_000, one, two)
    assert counted(made, "fine") < fed(made) - MAX_LEAD_BATCHES


def test_a_copy_that_waits_on_a_shared_partition_keeps_few_batches_of_the_other_writers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both tasks of `poor` write to the partition that `all` reads; one of them has no place."""
    monkeypatch.setattr(input_partition, "MAX_AHEAD_BATCHES", 20)
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
