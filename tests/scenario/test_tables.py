"""A join with a table: the table is there before the first row of a stream, whatever fails meanwhile."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas import cuts
from holdfast.schemas.cuts import LOADED_WATERMARK, Cut
from holdfast.schemas.topics import Partition
from holdfast.services.audit.replay import replay
from tests.support.examples import examples
from tests.support.memory_cluster import MemoryCluster

JOB = """
name: placed
sources:
  orders:
    topic: orders
    fields: {customer: int, amount: int, at: timestamp}
    event_time: at
    unit: ms
    parallelism: 2
    idle_after_s: 1
  customers:
    topic: customers
    fields: {customer: int, city: string}
    table: [customer]
    parallelism: 2
operators:
  beside: {join: {left: orders, right: customers, "on": [customer], kind: left}, parallelism: 2}
  hourly: {aggregate: {n: "count(city)"}, key: [city], window: {size_s: 3600}, input: beside}
fault_tolerance: {default: {scheme: none}}
queries:
  beside: {input: beside, sink: {topic: beside}}
  hourly: {input: hourly, sink: {topic: hourly}}
max_batch_records: 100
"""
CUSTOMERS = 2_000
LAST = range(CUSTOMERS - 300, CUSTOMERS)
"""Orders of the customers that come last: in most of the table they are not."""
START_MS = 1_600_000_000_000


def customers(cluster: MemoryCluster, numbers: range, street: str = "") -> None:
    for index in (0, 1):
        rows = [{"customer": n, "city": f"{street}{n}"} for n in numbers if n % 2 == index]
        cluster.feed("customers", rows, index)


def orders(cluster: MemoryCluster, numbers: range) -> None:
    for index in (0, 1):
        rows = [{"customer": n % CUSTOMERS, "amount": n, "at": START_MS + n * 1_000} for n in numbers if n % 2 == index]
        cluster.feed("orders", rows, index)


def started(*names: str) -> MemoryCluster:
    cluster = MemoryCluster(JOB)
    workers = [cluster.start(name) for name in names]
    cluster.place({unit: [workers[i % len(workers)]] for i, unit in enumerate(cluster.units)})
    return cluster


def decided(cluster: MemoryCluster) -> list[Cut]:
    """The cuts of one copy without rivals, all of which are valid."""
    records = (cuts.decode(message.value() or b"") for message in cluster.log.scan(Partition(cluster.topics.cuts, 0)))
    return [record for record in records if isinstance(record, Cut)]


def records(cut: Cut) -> int:
    return sum(r.stop - r.start for r in cut.ranges)


def met(cluster: MemoryCluster) -> dict[int, str | None]:
    return {row["amount"]: row["city"] for row in cluster.rows("beside")}


def exact(cluster: MemoryCluster) -> bool:
    return replay(cluster.log, cluster.cluster, "placed").exact


def test_a_stream_waits_until_the_table_is_there_and_then_each_row_meets_its_own() -> None:
    cluster = started("w1", "w2")
    orders(cluster, LAST)
    customers(cluster, range(CUSTOMERS))
    cluster.until(lambda: len(cluster.rows("beside")) == 300)
    assert met(cluster) == {n: str(n) for n in LAST}
    made = decided(cluster)
    whole = max(
        min(cut.batch for cut in made if cut.task == f"customers-{i}" and cut.watermark == LOADED_WATERMARK)
        for i in (0, 1)
    )
    assert whole > 5, "the table takes several batches"
    assert min(cut.batch for cut in made if cut.task.startswith("orders") and records(cut)) >= whole
    cluster.run_to_end()
    assert sum(row["n"] for row in cluster.rows("hourly")) == 300, "none was late behind the join"
    assert exact(cluster)


def test_a_stream_behind_the_table_brings_nothing_to_the_batches_before_it_was_whole() -> None:
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    orders(cluster, LAST)
    customers(cluster, range(CUSTOMERS))
    tables = [unit for unit in cluster.units if unit.startswith("customers")]
    cluster.place({unit: [worker] for unit in tables})
    cluster.until(lambda: sum(records(cut) for cut in decided(cluster)) == CUSTOMERS)
    assert max(cut.batch for cut in decided(cluster)) > 5
    cluster.place({unit: [worker] for unit in cluster.units if unit not in tables})
    cluster.run_to_end()
    assert met(cluster) == {n: str(n) for n in LAST}


def test_later_changes_and_deletions_count_for_the_rows_that_come_after_them() -> None:
    cluster = started("w1")
    customers(cluster, range(20))
    orders(cluster, range(4))
    cluster.until(lambda: len(cluster.rows("beside")) == 4)
    customers(cluster, range(1), "new ")
    cluster.delete("customers", [b"1", b"no number", None], 1)
    cluster.turn(200)
    orders(cluster, range(CUSTOMERS, CUSTOMERS + 4))
    cluster.until(lambda: len(cluster.rows("beside")) == 8)
    assert {n: city for n, city in met(cluster).items() if n >= CUSTOMERS} == {
        CUSTOMERS: "new 0", CUSTOMERS + 1: None, CUSTOMERS + 2: "2", CUSTOMERS + 3: "3",
    }  # fmt: skip
    assert {n: city for n, city in met(cluster).items() if n < 4} == {n: str(n) for n in range(4)}
    cluster.run_to_end()
    assert [letter.reason for letter in cluster.dead_letters()] == [
        'a deletion: of its key, customer: expected int, found "no number"',
        "a deletion: it has no key",
    ]
    assert exact(cluster)


def test_an_idle_stream_does_not_follow_the_table_and_its_later_rows_are_not_late() -> None:
    cluster = started("w1")
    customers(cluster, range(CUSTOMERS))
    orders(cluster, range(4))
    cluster.turn(5_000)
    orders(cluster, range(1_000, 1_004))
    cluster.run_to_end()
    assert met(cluster).keys() == {*range(4), *range(1_000, 1_004)}
    assert sum(row["n"] for row in cluster.rows("hourly")) == 8
    assert max(c.watermark for c in decided(cluster) if c.task.startswith("orders")) < LOADED_WATERMARK


@examples(each_run=4, with_long=40)
@given(st.lists(st.tuples(st.integers(1, 300), st.sampled_from(["w1", "w2"])), min_size=1, max_size=5))
def test_a_table_is_loaded_first_whatever_worker_is_killed_while_it_is(kills: list[tuple[int, str]]) -> None:
    cluster = started("w1", "w2")
    orders(cluster, LAST)
    customers(cluster, range(CUSTOMERS))
    homes = {unit: f"w{i % 2 + 1}" for i, unit in enumerate(cluster.units)}
    for turns, victim in kills:
        cluster.turn(turns)
        cluster.kill(victim)
        worker = cluster.start(victim)
        cluster.place({unit: [worker] for unit, name in homes.items() if name == victim})
    cluster.run_to_end()
    assert met(cluster) == {n: str(n) for n in LAST}
    assert exact(cluster)


def test_a_drain_before_the_table_is_there_still_brings_every_row() -> None:
    cluster = started("w1")
    orders(cluster, LAST)
    customers(cluster, range(CUSTOMERS))
    cluster.run_to_end()
    assert met(cluster) == {n: str(n) for n in LAST}


def test_without_a_table_in_the_topic_the_stream_continues() -> None:
    cluster = started("w1")
    orders(cluster, range(10))
    cluster.until(lambda: len(cluster.rows("beside")) == 10)
    rows: list[dict[str, Any]] = cluster.rows("beside")
    assert {row["city"] for row in rows} == {None}
