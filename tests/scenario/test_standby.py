"""Copies that wait for their turn: whichever copy leads, wakes or stalls, the results do not show it.

PROTOCOL 6 (paste and keep rules) and 8, on workers with a log in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas import progress
from holdfast.schemas.assignments import Flags
from holdfast.schemas.topics import Partition
from holdfast.services.worker.core import cut_rhythm
from holdfast.services.worker.process.loop import Worker
from holdfast.services.worker.unit.checkpoints import trimmer
from tests.support.examples import examples
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, Order, check, orders

SECONDARIES = {
    "deployed": Flags(state="virgin", receive=False, process=False, send=False, commit=False),
    "cold": Flags(state="synced", receive=False, process=False, send=False, commit=False, checkpoint_target=True),
    "hot": Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True),
    "standby": Flags(send=False, commit=False),
    "active": Flags(commit=False),
}
CHAIN = JOB + "placement: {units: [[orders], [large], [big]]}\n"
FAST = CHAIN + "fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 50}}\n"


def fed_half(fed: list[Order]) -> MemoryCluster:
    cluster = MemoryCluster(FAST)
    feed(cluster, fed[: len(fed) // 2])
    return cluster


def feed(cluster: MemoryCluster, fed: list[Order]) -> None:
    for index, partition in enumerate((0, 1)):
        cluster.feed("orders", fed[index::2], partition)


def everywhere(cluster: MemoryCluster, *copies: Worker | tuple[Worker, Flags]) -> None:
    cluster.place({unit: copies for unit in cluster.units})


@pytest.mark.parametrize("secondary", SECONDARIES)
@examples(each_run=2, with_long=20)
@given(st.integers(1, 500), st.integers(0, 99))
def test_a_secondary_of_any_kind_takes_over(secondary: str, turns: int, seed: int) -> None:
    fed = orders(240, seed)
    cluster = fed_half(fed)
    first, second = cluster.start("w1"), cluster.start("w2")
    everywhere(cluster, first, (second, SECONDARIES[secondary]))
    cluster.turn(turns)
    cluster.kill("w1")
    everywhere(cluster, second)
    feed(cluster, fed[len(fed) // 2 :])
    cluster.run_to_end()
    check(cluster.rows, fed)


@examples(each_run=3, with_long=30)
@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 200), st.sampled_from(["cold", "hot"]))
def test_a_primary_that_stalls_and_returns_gets_its_place_back(before: int, stalled: int, both: int, kind: str) -> None:
    fed = orders(300)
    cluster = fed_half(fed)
    first, second = cluster.start("w1"), cluster.start("w2")
    everywhere(cluster, first, (second, SECONDARIES[kind]))
    cluster.turn(before)
    del cluster.workers["w1"]  # frozen
    everywhere(cluster, first, (second, SECONDARIES[kind]))
    everywhere(cluster, (first, SECONDARIES[kind]), second)
    feed(cluster, fed[len(fed) // 2 :])
    cluster.turn(stalled)
    cluster.workers["w1"] = first  # awake again
    everywhere(cluster, (first, SECONDARIES["active"]), second)
    cluster.turn(both)
    everywhere(cluster, first, (second, SECONDARIES[kind]))
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_a_copy_that_sleeps_beside_a_busy_source_leaves_its_records_where_they_are() -> None:
    fed = orders(600)
    cluster = MemoryCluster(FAST + "max_batch_records: 20\n")
    first, second = cluster.start("w1"), cluster.start("w2")
    everywhere(cluster, first, (second, SECONDARIES["hot"]))
    for number in range(0, 540, 10):
        feed(cluster, fed[number : number + 10])
        cluster.turn(20)
    source = next(copy.running for key, copy in second._copies.here.items() if "/orders-0" in key)
    assert source is not None
    assert {partition.topic for partition in source.intake.positions()}.isdisjoint(p.topic for p in second._data._next)
    cluster.kill("w1")
    everywhere(cluster, second)
    feed(cluster, fed[540:])
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_a_copy_that_takes_over_publishes_its_progress_although_it_has_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sources run ahead of the slowest unit by so much: it stays the slowest until its progress is published."""
    monkeypatch.setattr(cut_rhythm, "MAX_LEAD_BATCHES", 3)
    fed = orders(240)
    cluster = fed_half(fed)
    first, second, source = cluster.start("w1"), cluster.start("w2"), cluster.start("w3")
    pair = (first, (second, SECONDARIES["standby"]))
    cluster.place({unit: (source,) if unit.startswith("orders") else pair for unit in cluster.units})
    cluster.turn(100)
    mute_progress(first)
    for number in range(120, 180, 10):  # more than may be cut; what is cut is done, and a marker says so
        feed(cluster, fed[number : number + 10])
        cluster.turn(200)
    cluster.kill("w1")
    cluster.turn(100)
    cluster.place({unit: (source if unit.startswith("orders") else second,) for unit in cluster.units})
    feed(cluster, fed[180:])
    cluster.run_to_end()
    check(cluster.rows, fed)


def mute_progress(worker: Worker) -> None:
    """The progress that it publishes from now on is lost."""
    appender = worker._appender
    appends = appender.append

    def append(partition: Partition, value: bytes | None, **others: Any) -> None:
        if not partition.topic.endswith(".progress"):
            appends(partition, value, **others)

    appender.append = append  # type: ignore[method-assign]


roles = st.sampled_from([*SECONDARIES, "gone"])
steps = st.lists(
    st.tuples(
        st.integers(1, 250),
        st.integers(0, 2),
        st.integers(0, 2),
        st.tuples(roles, roles, roles),
        st.sampled_from([0, 1, 2, None]),
    ),
    min_size=1,
    max_size=6,
)


@examples(each_run=8, with_long=80)
@given(steps, st.integers(0, 99), st.sampled_from([0, 25]))
def test_results_are_exact_whatever_the_flags_and_whichever_worker_stalls(
    history: list[tuple[int, int, int, tuple[str, str, str], int | None]], seed: int, delivery_turns: int
) -> None:
    """history: (turns, who commits, how much further for each next unit, what the others do, who stalls meanwhile)."""
    fed = orders(200, seed)
    cluster = MemoryCluster(FAST, delivery_turns)
    workers = [cluster.start(f"w{number}") for number in range(3)]
    part = len(fed) // len(history)
    for number, (turns, first, step, others, stalled) in enumerate(history):
        feed(cluster, fed[number * part : (number + 1) * part if number + 1 < len(history) else len(fed)])
        placement = {}
        for place, unit in enumerate(cluster.units):
            committer = (first + place * step) % 3
            placement[unit] = [
                (worker, Flags() if index == committer else SECONDARIES[others[index]])
                for index, worker in enumerate(workers)
                if index == committer or others[index] != "gone"
            ]
        cluster.place(placement)
        cluster.workers = {f"w{index}": one for index, one in enumerate(workers) if index != stalled}
        cluster.turn(turns)
    cluster.workers = {f"w{index}": one for index, one in enumerate(workers)}
    cluster.run_to_end()
    check(cluster.rows, fed)


def behind(cluster: MemoryCluster, records: Callable[[int], list[Order]]) -> int:
    """How many batches a sleeping copy is behind at most, while records come every ten turns."""
    first, second = cluster.start("w1"), cluster.start("w2")
    everywhere(cluster, first, (second, SECONDARIES["hot"]))
    most = 0
    for number in range(300):
        feed(cluster, records(number))
        cluster.turn(10)
        ahead, asleep = ({copy.unit: copy.batch for copy in worker.copies()} for worker in (first, second))
        most = max(most, *(ahead[unit] - asleep.get(unit, 0) for unit in ahead)) if number > 200 else 0
    return most


def test_a_sleeping_copy_is_a_few_batches_behind_where_keys_seldom_come_again() -> None:
    """What it is behind is processed again when it takes over."""
    fed = orders(1200)
    assert behind(MemoryCluster(CHAIN), lambda number: fed[4 * number : 4 * number + 4]) < 20


def test_a_source_cuts_while_its_outputs_are_being_opened() -> None:
    """A takeover fences and reads a position; records that came meanwhile are on their way by then."""
    fed = orders(240)
    cluster = fed_half(fed)
    cluster._delivery_turns = 200
    first, second = cluster.start("w1"), cluster.start("w2")
    everywhere(cluster, first, (second, SECONDARIES["hot"]))
    cluster.turn(700)
    cluster.kill("w1")
    everywhere(cluster, second)
    cluster.turn(5)
    before = max(copy.batch for copy in second.copies())
    feed(cluster, fed[len(fed) // 2 :])
    cluster.turn(100)
    assert max(copy.batch for copy in second.copies()) > before
    cluster.run_to_end()
    check(cluster.rows, fed)


@pytest.mark.parametrize("number", range(len(MemoryCluster(FAST).units)))
def test_output_kept_by_a_standby_while_the_primary_was_silent_goes_first(number: int) -> None:
    """The primary of one unit stalls; its standby is ahead of what was sent when its turn comes."""
    fed = orders(240)
    cluster = fed_half(fed)
    unit = cluster.units[number]
    others, first, second = (cluster.start(name) for name in ("w0", "w1", "w2"))
    copies = {name: [others] for name in cluster.units}
    cluster.place({**copies, unit: [first, (second, SECONDARIES["standby"])]})
    cluster.turn(100)
    cluster.kill("w1")
    feed(cluster, fed[len(fed) // 2 :])
    cluster.turn(100)
    cluster.place({**copies, unit: [second]})
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_while_a_unit_is_switched_its_inputs_are_kept_for_its_primary_and_nothing_else_is() -> None:
    """MECHANISMS H6: from the switch to the rollback."""
    cluster = fed_half(fed := orders(240))
    first, second = cluster.start("w1"), cluster.start("w2")
    switched = "large-0"
    everywhere(cluster, first, (second, SECONDARIES["hot"]))
    partitions = cluster.starts_of_data()
    inputs = [one for one in partitions if one.topic.endswith(".orders.0") and one.index == 0]
    assert inputs
    others = [one for one in partitions if one not in inputs]

    def trimmed(some: list[Partition], before: dict[Partition, int]) -> bool:
        return all(cluster.starts_of_data()[one] > before[one] for one in some)

    cluster.until(lambda: trimmed(list(partitions), partitions))
    cluster.place({switched: [(first, SECONDARIES["hot"]), second]})
    cluster.turn()
    held = cluster.starts_of_data()
    feed(cluster, fed[len(fed) // 2 :])
    cluster.until(lambda: trimmed(others, held))
    cluster.turn(2 * trimmer.OUTPUT_MS)
    assert {one: cluster.starts_of_data()[one] for one in inputs} == {one: held[one] for one in inputs}
    cluster.place({switched: [first, (second, SECONDARIES["hot"])]})
    cluster.until(lambda: trimmed(inputs, held))
    cluster.run_to_end()
    check(cluster.rows, fed)


@pytest.mark.parametrize("turns", [60, 90, 130, 200])
def test_rows_that_were_under_way_when_commit_went_are_delivered_when_it_comes_back(turns: int) -> None:
    """The copy that gets commit meanwhile never wakes."""
    fed = orders(240)
    cluster = MemoryCluster(FAST, delivery_turns=40)
    feed(cluster, fed)
    first, second = cluster.start("w1"), cluster.start("w2")
    everywhere(cluster, first)
    cluster.turn(turns)
    cluster.kill("w2")
    everywhere(cluster, (first, SECONDARIES["standby"]), second)
    cluster.turn(50)
    everywhere(cluster, first)
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_a_copy_that_finds_the_end_marked_says_so() -> None:
    """The author of the last marker may be gone before it reads it back: then the job never ended."""
    fed = orders(40)
    cluster = fed_half(fed)
    everywhere(cluster, cluster.start("w1"))
    cluster.run_to_end()
    where = Partition(cluster.topics.progress, 0)
    before = cluster.log.offsets([where], "end")[where]
    everywhere(cluster, cluster.start("w2"))
    cluster.turn(50)
    told = [progress.decode(message.value() or b"") for message in cluster.log.scan(where, before)]
    assert {one.unit for one in told if one.ended} == set(cluster.units)


def test_kept_output_goes_out_in_one_transaction_when_its_copy_becomes_the_leader() -> None:
    """The first batch alone would make a takeover longer by a transaction."""
    fed = orders(80)
    cluster = MemoryCluster(CHAIN + "batch_interval_ms: 1\n", delivery_turns=10)
    first, second = cluster.start("w1"), cluster.start("w2")
    sink = next(unit for unit in cluster.units if "big" in unit)
    rest = {unit: (second,) for unit in cluster.units if unit != sink}
    cluster.place({**rest, sink: (first, (second, SECONDARIES["standby"]))})
    cluster.turn(200)
    cluster.kill("w1")
    for number in range(8):
        feed(cluster, fed[10 * number : 10 * number + 10])
        cluster.turn(10)
    where = Partition(cluster.topics.delivered, next(u.partition for u in cluster.plan.units if u.name == sink))
    before = list(cluster.log.scan(where))
    cluster.place({sink: (second,)})
    cluster.until(lambda: len(cluster.rows("big")) == sum(order["amount"] >= 10 for order in fed))
    assert (len(before), len(list(cluster.log.scan(where)))) == (0, 1)
