"""`retain_bytes`: a unit that acknowledges nothing makes the data topics grow to the bound, then the sources wait."""

from __future__ import annotations

import pytest

from holdfast.schemas import cuts
from holdfast.schemas.cuts import Cut
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.plans.layout import data_topics
from holdfast.services.worker.process.loop import Worker
from tests.scenario.test_unplaced_units import beat
from tests.support.memory_cluster import MemoryCluster

MIB = 1024 * 1024
JOB = """
name: numbers
sources: {numbers: {topic: numbers, fields: {x: int, pad: string}, parallelism: 2}}
operators:
  fine: {filter: "x >= 0", input: numbers, parallelism: 1}
  poor: {filter: "x >= 0", input: numbers, parallelism: 1}
fault_tolerance: {default: {scheme: none}}
queries:
  fine: {input: fine, sink: {topic: fine}}
  poor: {input: poor, sink: {topic: poor}}
placement: {units: [[numbers], [fine, sink-fine], [poor, sink-poor]]}
"""
BOUND = f"retain_bytes: {MIB}\n"
PAD = "p" * 10_000
MARGIN = 30 * 2 * len(PAD)
"""What is cut before the sources know: progress is published every 100 ms, and a batch comes every 20."""


def retained(made: MemoryCluster) -> int:
    """Bytes that the data topics hold."""
    partitions = [Partition(name, index) for name, count in data_topics(made.plan).items() for index in range(count)]
    return sum(len(message.value() or b"") for one in partitions for message in made.log.scan(one))


def live(made: MemoryCluster, turns: int, *workers: Worker) -> int:
    """Records come every 20 ms; the most that the data topics held."""
    most = 0
    for turn in range(turns // 20):
        if turn % 5 == 0:
            beat(made, *workers)
        for index in range(2):
            made.feed("numbers", [{"x": made.now_ms, "pad": PAD}], index)
        made.turn(20)
        most = max(most, retained(made)) if turn % 10 == 0 else most
    return most


def fed(made: MemoryCluster) -> int:
    return sum(made.log.offsets([Partition("numbers", i) for i in range(2)], "end").values())


def last_cut(made: MemoryCluster) -> int:
    records = [cuts.decode(one.value() or b"") for one in made.log.scan(Partition(made.topics.cuts, 0))]
    return max(one.batch for one in records if isinstance(one, Cut))


def placed(made: MemoryCluster) -> tuple[Worker, Worker]:
    """One runs all units but `poor`, which the other one runs."""
    one, two = made.start("one"), made.start("two")
    made.place({unit: [two if unit.startswith("poor") else one] for unit in made.units})
    return one, two


def waits(made: MemoryCluster) -> str:
    return next((copy.waits for worker in made.workers.values() for copy in worker.copies() if copy.waits), "")


@pytest.mark.parametrize("bound", [BOUND, ""])
def test_the_sources_wait_at_the_bound_until_the_unit_has_acknowledged(bound: str) -> None:
    made = MemoryCluster(JOB + bound)
    one, two = placed(made)
    live(made, 1_000, one, two)
    made.kill("two")
    most = live(made, 7_000, one)
    if not bound:
        assert most > 3 * MIB
        return
    assert MIB <= most <= MIB + MARGIN
    cut = last_cut(made)
    assert waits(made).startswith(f"no batch begins: the data topics hold retain_bytes ({MIB})")
    assert waits(made).endswith("by poor-0")
    live(made, 1_000, one)
    assert last_cut(made) == cut, "and no cut is made beyond it"
    two = made.start("two")
    made.place({"poor-0": [two]})
    live(made, 4_000, one, two)
    assert waits(made) == ""
    made.run_to_end()
    assert len(made.rows("fine")) == len(made.rows("poor")) == fed(made)


def test_a_source_that_starts_again_remembers_what_it_has_sent() -> None:
    made = MemoryCluster(JOB + BOUND)
    one, two = placed(made)
    live(made, 1_000, one, two)
    made.kill("two")
    live(made, 6_000, one)
    for _ in range(3):
        made.kill("one")
        one = made.start("one")
        made.place({unit: [one] for unit in made.units if not unit.startswith("poor")})
        assert live(made, 2_500, one) <= MIB + 2 * MARGIN
    two = made.start("two")
    made.place({"poor-0": [two]})
    live(made, 4_000, one, two)
    made.run_to_end()
    assert len(made.rows("fine")) == len(made.rows("poor")) == fed(made)


def test_a_bound_smaller_than_what_comes_between_two_checkpoints_slows_a_job_and_does_not_stop_it() -> None:
    made = MemoryCluster(JOB + BOUND)
    one = made.start("one")
    made.place({unit: [one] for unit in made.units})
    for index in range(2):
        made.feed("numbers", [{"x": x, "pad": PAD} for x in range(400)], index)
    made.run_to_end()
    assert len(made.rows("fine")) == len(made.rows("poor")) == fed(made) == 800
