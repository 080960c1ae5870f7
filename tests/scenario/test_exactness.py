"""Whatever happens to the copies of a job, its results are those of one piece: nothing lost, doubled or wrong.

PROTOCOL 14, on workers with a log in memory: kills at any turn, zombies, pauses, drains.
Two copies at once are in test_two_copies.py.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, Order, check, orders


def started(fed: list[Order]) -> MemoryCluster:
    cluster = MemoryCluster(JOB)
    for index, partition in enumerate((0, 1)):
        cluster.feed("orders", fed[index::2], partition)
    return cluster


def test_an_undisturbed_run_is_exact() -> None:
    fed = orders(400)
    cluster = started(fed)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_records_that_come_while_it_runs_are_batched_and_exact() -> None:
    fed = orders(300)
    cluster = MemoryCluster(JOB)
    workers = [cluster.start(name) for name in ("w1", "w2")]
    cluster.place({unit: [workers[i % 2]] for i, unit in enumerate(cluster.units)})
    for index, order in enumerate(fed):
        cluster.feed("orders", [order], index % 2)
        cluster.turn(3)
    cluster.run_to_end()
    check(cluster.rows, fed)


@examples(each_run=6, with_long=60)
@given(st.lists(st.tuples(st.integers(1, 400), st.sampled_from(["w1", "w2", "w3"])), max_size=5), st.integers(0, 99))
def test_kills_at_any_turn_lose_and_double_nothing(kills: list[tuple[int, str]], seed: int) -> None:
    fed = orders(240, seed)
    cluster = MemoryCluster(JOB)
    workers = {name: cluster.start(name) for name in ("w1", "w2", "w3")}
    homes = {unit: f"w{i % 3 + 1}" for i, unit in enumerate(cluster.units)}
    cluster.place({unit: [workers[name]] for unit, name in homes.items()})
    chunks = [fed[start : start + 30] for start in range(0, len(fed), 30)]
    for turns, victim in [*kills, (1, "")]:
        for chunk in chunks[:2]:
            for partition in (0, 1):
                cluster.feed("orders", chunk[partition::2], partition)
        chunks = chunks[2:]
        cluster.turn(turns)
        if victim:
            cluster.kill(victim)
            workers[victim] = cluster.start(victim)
            cluster.place({unit: [workers[victim]] for unit, name in homes.items() if name == victim})
    for chunk in chunks:
        for partition in (0, 1):
            cluster.feed("orders", chunk[partition::2], partition)
    cluster.run_to_end()
    check(cluster.rows, fed)


@examples(each_run=2, with_long=20)
@given(st.integers(1, 400), st.integers(0, 99))
def test_cuts_that_run_ahead_of_slow_transactions_keep_their_own_records(turns: int, seed: int) -> None:
    """Several batches are cut and decoded before the first of them is processed."""
    fed = orders(400, seed)
    cluster = MemoryCluster(JOB + "max_batch_records: 2\n", delivery_turns=60)
    for index, partition in enumerate((0, 1)):
        cluster.feed("orders", fed[index::2], partition)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.turn(turns)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.run_to_end()
    check(cluster.rows, fed)


@examples(each_run=4, with_long=40)
@given(st.integers(1, 300), st.integers(1, 300))
def test_a_zombie_that_wakes_after_its_successor_started_changes_nothing(before: int, during: int) -> None:
    fed = orders(300)
    cluster = started(fed)
    old = cluster.start("w1")
    cluster.place({unit: [old] for unit in cluster.units})
    cluster.turn(before)
    del cluster.workers["w1"]  # frozen
    new = cluster.start("w2")
    cluster.place({unit: [new] for unit in cluster.units})
    cluster.turn(during)
    cluster.workers["w1"] = old  # awake again, it has yet to read that it was replaced
    cluster.run_to_end()
    check(cluster.rows, fed)
    assert all(copy.unit not in {c.unit for c in old.copies()} for copy in new.copies()), "the zombie gave up"


def test_after_a_pause_nothing_is_cut_until_resume() -> None:
    fed = orders(100)
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.turn(50)
    cluster.control("pause")
    cluster.turn(20)
    for partition in (0, 1):
        cluster.feed("orders", fed[partition::2], partition)
    cluster.turn(1500)
    assert cluster.rows("big") == []
    cluster.control("resume")
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_bad_records_go_to_the_dead_letters_once_and_the_rest_continues() -> None:
    fed = orders(60)
    cluster = MemoryCluster(JOB)
    for order in fed:
        cluster.feed("orders", [order], 0)
        cluster.feed("orders", [b"{not json", b"", b'{"shop": 7}'], 1)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.turn(30)
    cluster.kill("w1")
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.run_to_end()
    check(cluster.rows, fed)
    letters = cluster.dead_letters()
    assert sorted(letter.offset for letter in letters) == list(range(180)), "each bad record once"
    assert all(letter.reason and letter.topic == "orders" and letter.partition == 1 for letter in letters)


def test_acks_trim_what_is_between_units() -> None:
    fed = orders(400)
    cluster = started(fed)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.turn(4000)
    starts = cluster.starts_of_data()
    assert any(starts.values()), "something was trimmed"
    cluster.run_to_end()
    check(cluster.rows, fed)
