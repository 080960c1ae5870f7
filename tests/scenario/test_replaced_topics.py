"""A source's topic is deleted and created again: its offsets mean other records, so the job stops until a person says
where to continue. A sink's topic that is gone is waited for.
"""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.schemas import cuts, progress
from holdfast.schemas.cuts import Cut, Replaced
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.audit.replay import replay
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.worker.host.topic_watch import LOOK_MS
from tests.scenario.test_new_partitions import JOB, SECONDARIES, amounts, once, orders, started
from tests.support.memory_cluster import GENERATION, MemoryCluster


def ran(count: int = 50) -> MemoryCluster:
    """Has read so many orders, half of them from each partition."""
    cluster = started()
    for partition in (0, 1):
        cluster.feed("orders", orders(count)[partition::2], partition)
    cluster.until(lambda: len(cluster.rows("raw")) == count)
    return cluster


def stopped(cluster: MemoryCluster) -> str:
    return next((c.stopped for w in cluster.workers.values() for c in w.copies() if c.stopped), "")


def waiting(cluster: MemoryCluster) -> set[str]:
    return {copy.waits for worker in cluster.workers.values() for copy in worker.copies() if copy.waits}


def records(cluster: MemoryCluster) -> list[object]:
    log = cluster.log.scan(Partition(cluster.topics.cuts, 0))
    return [cuts.decode(message.value() or b"") for message in log]


def refill(cluster: MemoryCluster, count: int) -> None:
    """More orders in the new topic than there were in the old one."""
    for partition in (0, 1):
        cluster.feed("orders", orders(count, 1_000)[partition::2], partition)


def test_nothing_of_a_topic_that_was_created_again_is_read_at_the_old_offset() -> None:
    """It continued at the old offset once the new topic had outgrown it: what came before that was skipped."""
    cluster = ran()
    cluster.replace("orders", 2)
    cluster.until(lambda: bool(stopped(cluster)))
    refill(cluster, 400)
    cluster.turn(3_000)
    assert amounts(cluster) == once(range(50))
    assert "topic orders of source orders was deleted and created again" in stopped(cluster)
    assert "holdfast resume grown --from earliest" in stopped(cluster)
    with pytest.raises(CommandFailed, match="nothing of it can be computed again"):
        replay(cluster.log, cluster.cluster, f"grown@{GENERATION}")


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_a_person_says_where_the_new_topic_is_read_from(at: str, partitions: int) -> None:
    cluster = ran()
    cluster.replace("orders", partitions)
    cluster.until(lambda: bool(stopped(cluster)))
    before = [1_000 * (p + 1) + i for p in range(partitions) for i in range(40)]
    for number in before:
        cluster.feed("orders", orders(1, number), number // 1_000 - 1)
    cluster.turn(2_000)
    cluster.resume_from("start" if at == "start" else "end")
    cluster.until(lambda: not stopped(cluster))
    after = [1_000 * (p + 1) + i for p in range(partitions) for i in range(40, 60)]
    for number in after:
        cluster.feed("orders", orders(1, number), number // 1_000 - 1)
    cluster.run_to_end()
    assert amounts(cluster) == once(range(50)) + Counter(before if at == "start" else []) + Counter(after)
    totals = {row["user"]: row["n"] for row in cluster.rows("totals")}
    assert sum(totals.values()) == amounts(cluster).total(), "what was counted before stays counted"


def test_a_replaced_topic_is_found_before_it_reaches_the_old_offset() -> None:
    """A position behind the end of the new topic is looked into at once."""
    cluster = ran()
    cluster.replace("orders", 2)
    before = cluster.now_ms
    cluster.until(lambda: bool(stopped(cluster)))
    assert cluster.now_ms - before < LOOK_MS


@pytest.mark.parametrize("secondary", SECONDARIES)
def test_a_stopped_job_stays_stopped_after_a_takeover_and_can_be_resumed(secondary: str) -> None:
    cluster = MemoryCluster(JOB)
    first, second = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [first, (second, SECONDARIES[secondary])] for unit in cluster.units})
    cluster.feed("orders", orders(50))
    cluster.until(lambda: len(cluster.rows("raw")) == 50)
    cluster.replace("orders", 2)
    cluster.until(lambda: bool(stopped(cluster)))
    refill(cluster, 200)
    cluster.turn(1_000)
    cluster.kill("w1")
    cluster.place({unit: [second] for unit in cluster.units})
    cluster.turn(2_000)
    assert stopped(cluster)
    assert amounts(cluster) == once(range(50))
    cluster.resume_from("start")
    cluster.run_to_end()
    assert amounts(cluster) == once(range(50), range(1_000, 1_200))


def test_a_restart_reads_what_was_decided_while_nobody_ran_the_job() -> None:
    """From its marker it begins with the old offsets, and what it reads there is of the new topic."""
    cluster = ran()
    cluster.until(lambda: all(copy.durable > 0 for copy in cluster.workers["w1"].copies()))
    cluster.replace("orders", 2)
    cluster.until(lambda: bool(stopped(cluster)))
    refill(cluster, 400)
    cluster.turn(1_000)
    cluster.kill("w1")
    cluster.resume_from("start")
    worker = cluster.start("w2")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.run_to_end()
    assert amounts(cluster) == once(range(50), range(1_000, 1_400))


def test_a_topic_that_is_gone_is_waited_for() -> None:
    cluster = ran()
    cluster.log.delete(["orders"])
    cluster.until(lambda: bool(waiting(cluster)))
    assert waiting(cluster) == {"topic orders of source orders is gone: waiting for it"}
    cluster.log.create([TopicSpec("orders", 2)])
    cluster.until(lambda: bool(stopped(cluster)))
    assert not waiting(cluster)


def test_a_drain_of_a_stopped_job_ends_it_with_what_was_cut() -> None:
    cluster = ran()
    cluster.replace("orders", 1)
    cluster.until(lambda: bool(stopped(cluster)))
    refill_one = orders(30, 1_000)
    cluster.feed("orders", refill_one)
    cluster.run_to_end()
    assert amounts(cluster) == once(range(50))


SIMPLE = """
name: simple
sources: {orders: {topic: orders, fields: {user: int, amount: int}}}
fault_tolerance: {default: {scheme: none}}
queries: {raw: {input: orders, sink: {topic: raw}}}
"""


def test_a_batch_whose_records_went_with_their_topic_counts_as_lost() -> None:
    """It was cut, and the copy that cut it died before it processed it: no copy can read its records any more."""
    cluster = started(SIMPLE)
    cluster.until(lambda: all(copy.durable > 0 for copy in cluster.workers["w1"].copies()))
    cluster.feed("orders", orders(30))
    cluster.until(lambda: any(isinstance(r, Cut) and r.ranges[0].stop == 30 for r in records(cluster)))
    cluster.kill("w1")
    cluster.replace("orders")
    worker = cluster.start("w2")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.until(lambda: bool(stopped(cluster)))
    cluster.feed("orders", orders(200, 1_000))
    cluster.turn(500)
    assert not amounts(cluster), "nothing of the new topic stands for what was cut of the old one"
    cluster.resume_from("start")
    cluster.run_to_end()
    assert amounts(cluster) == once(range(1_000, 1_200))
    told = [progress.decode(m.value() or b"") for m in cluster.log.scan(Partition(cluster.topics.progress, 0))]
    assert told[-1].lost == 30


def test_batches_cut_before_the_replacement_was_noticed_are_named() -> None:
    """Between two looks a new topic that has outgrown the old one is read where that ended."""
    cluster = ran()
    cluster.replace("orders", 2)
    refill(cluster, 400)
    cluster.until(lambda: bool(stopped(cluster)))
    cluster.turn(100)
    record = next(record for record in records(cluster) if isinstance(record, Replaced))
    leaked = [r for r in records(cluster) if isinstance(r, Cut) and any(one.stop > 25 for one in r.ranges)]
    assert leaked
    assert all(cut.batch > record.sure[cut.task] for cut in leaked)
    assert all(f"batches {record.sure[task] + 1} to " in stopped(cluster) for task in record.sure)


@pytest.mark.parametrize("delivery_turns", [0, 3])
def test_rows_for_a_sink_whose_topic_is_gone_wait_for_it(delivery_turns: int) -> None:
    cluster = MemoryCluster(JOB, delivery_turns)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.feed("orders", orders(20))
    cluster.until(lambda: len(cluster.rows("raw")) == 20)
    cluster.log.delete(["raw"])
    cluster.feed("orders", orders(20, 100))
    cluster.until(lambda: bool(waiting(cluster)))
    assert "topic raw of a sink is gone" in waiting(cluster).pop()
    cluster.feed("orders", orders(20, 200))
    cluster.turn(8_000)
    assert not [copy for copy in worker.copies() if copy.state == "failed"]
    cluster.log.create([TopicSpec("raw", 2)])
    cluster.until(lambda: not waiting(cluster))
    cluster.run_to_end()
    assert amounts(cluster) == once(range(100, 120), range(200, 220))
