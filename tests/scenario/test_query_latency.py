"""How long results take, as copies report it: from the arrival of a batch's oldest record until its rows are out."""

from __future__ import annotations

from holdfast.schemas.costs import Costs
from holdfast.services.worker.process.loop import Worker
from tests.support.memory_cluster import MemoryCluster

JOB = """
name: numbers
sources: {numbers: {topic: numbers, fields: {x: int, y: string}}}
operators:
  fine: {aggregate: {n: "count()"}, key: [y], input: numbers, emit: updates}
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 60000}}
queries:
  fine: {input: fine, sink: {topic: fine}}
placement: {units: [[numbers], [fine, sink-fine]]}
"""


def live(made: MemoryCluster, ms: int) -> None:
    """A record comes every 20 ms."""
    for turn in range(ms // 20):
        made.feed("numbers", [{"x": turn, "y": "ab"[turn % 2]}])
        made.turn(20)


def reported(worker: Worker) -> Costs:
    """Of the unit that delivers."""
    return next(one for one in worker.costs([copy.unit for copy in worker.copies()]) if one.unit.endswith("fine-0"))


def mean_ms(before: Costs, after: Costs) -> float:
    return (after.latency_ms - before.latency_ms) / (after.latencies - before.latencies)


def placed(delivery_turns: int = 0) -> tuple[MemoryCluster, Worker, Worker]:
    made = MemoryCluster(JOB, delivery_turns)
    one, two = made.start("one"), made.start("two")
    made.place({unit: [two if unit == "fine-0" else one] for unit in made.units})
    live(made, 1_000)
    return made, one, two


def test_a_transaction_is_part_of_the_latency() -> None:
    found = []
    for turns in (0, 15):
        made, _, two = placed(turns)
        before = reported(two)
        live(made, 2_000)
        after = reported(two)
        assert 15 <= after.latencies - before.latencies <= 25, "a batch or so of each 100 ms"
        found.append(mean_ms(before, after))
    assert 0 <= found[0] <= 15
    assert 12 <= found[1] - found[0] <= 20


def test_batches_whose_rows_are_not_out_wait_and_count_once_they_are_out() -> None:
    made, one, _ = placed()
    made.kill("two")
    live(made, 600)
    three = made.start("three")
    made.place({unit: [three if unit == "fine-0" else one] for unit in made.units})
    made.turn(3)
    live(made, 1_000)
    assert reported(three).latencies >= 8
    assert reported(three).waits_since_ms == 0
    made.kill("one")
    live(made, 700)
    one = made.start("one")
    made.place({unit: [three if unit == "fine-0" else one] for unit in made.units})
    before = reported(three)
    live(made, 600)
    slowest = reported(three).latency_ms - before.latency_ms
    assert slowest >= 650, "records came while their source had no place, and the oldest waited all the while"
