"""PROTOCOL 3: the cut log of a running job is trimmed, and everybody who reads it copes with that."""

from __future__ import annotations

import pytest

from holdfast.schemas import cuts
from holdfast.schemas.cuts import Snapshot
from holdfast.schemas.topics import Partition
from holdfast.services.audit.replay import Report, replay
from holdfast.services.client.bad_records import Search
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.late.cut_logs import cuts_base, snapshot_at
from holdfast.services.worker.core import cut_trims
from holdfast.services.worker.sinks.position import newest_cut
from holdfast.services.worker.sources import cut_trimmer
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import orders

JOB = """
name: orders
replay_horizon_s: 0
sources:
  orders:
    topic: orders
    fields: {shop: string, item: string, amount: int, at: timestamp}
    event_time: at
    unit: ms
    parallelism: 2
    idle_after_s: 1
operators:
  large: {filter: "amount >= 10", input: orders}
  tens: {aggregate: {n: "count()", mean: "mean(amount)"}, key: [item], input: orders, window: {size_s: 600}}
fault_tolerance: {default: {scheme: none}}
queries:
  tens: {input: tens, sink: {topic: tens}}
  big: {input: large, sink: {topic: big}}
"""
RUNNING = JOB.replace("window: {size_s: 600}}", "emit: updates}").replace("tens: {agg", "totals: {agg")
RUNNING = RUNNING.replace("input: tens,", "input: totals,")
FED = orders(600)


@pytest.fixture(autouse=True)
def trimmed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut_trims, "FEWEST_RECORDS", 4)
    monkeypatch.setattr(cut_trims, "RECORDS_A_TASK", 0)
    monkeypatch.setattr(cut_trims, "SHORTEST_MS", 20)
    monkeypatch.setattr(cut_trimmer, "LOOK_MS", 20)


def running(job: str = JOB, chunks: int = 20) -> MemoryCluster:
    cluster = MemoryCluster(job)
    cluster.place({unit: [cluster.start(f"w{index}")] for index, unit in enumerate(cluster.units)})
    feed(cluster, 0, chunks)
    return cluster


def feed(cluster: MemoryCluster, first: int, last: int) -> None:
    for number in range(first, last):
        chunk = FED[number * 20 : number * 20 + 20]
        for partition in (0, 1):
            cluster.feed("orders", [*chunk[partition::2], b"{not json"], partition)
        cluster.turn(60)


def cut_log(cluster: MemoryCluster) -> Partition:
    return Partition(cluster.topics.cuts, 0)


def start(cluster: MemoryCluster) -> int:
    return cluster.log.offsets([cut_log(cluster)], "start")[cut_log(cluster)]


def replayed(cluster: MemoryCluster) -> Report:
    return replay(cluster.log, cluster.cluster, "orders")


def test_the_log_begins_with_the_state_that_a_snapshot_in_it_says() -> None:
    cluster = running()
    assert start(cluster) > 0
    base = cuts_base(cluster.log, cluster.plan, cut_log(cluster))
    assert base.upto == start(cluster)
    assert base == snapshot_at(cluster.log, cut_log(cluster), base.upto)
    records = [cuts.decode(message.value() or b"") for message in cluster.log.scan(cut_log(cluster))]
    assert any(isinstance(record, Snapshot) for record in records)
    assert len(records) < 60


def test_copies_that_begin_again_continue_from_their_markers() -> None:
    cluster = running(chunks=10)
    for index, unit in enumerate(cluster.units):
        cluster.kill(f"w{index}")
        cluster.place({unit: [cluster.start(f"w{index}")]})
    before = start(cluster)
    feed(cluster, 10, 30)
    assert start(cluster) > before
    cluster.run_to_end()
    rows = cluster.rows("tens")
    assert sum(row["n"] for row in rows) == len(FED)
    assert len(cluster.rows("big")) == sum(order["amount"] >= 10 for order in FED)


def test_results_of_later_batches_alone_are_compared() -> None:
    cluster = running()
    report = replayed(cluster)
    assert report.exact, report.differences
    assert report.rows.results > 20
    assert report.dead_letters.results > 2
    (note,) = report.notes
    assert "the cut log is kept for replay_horizon_s and begins behind batch" in note


def test_a_missing_row_of_the_later_batches_is_found() -> None:
    cluster = running()
    partitions = [Partition("big", index) for index in range(cluster.log.topics()["big"])]
    longest = max((cluster.log.stored(partition).messages for partition in partitions), key=len)
    del longest[-1]
    assert replayed(cluster).rows.lost == 1


def test_totals_since_the_beginning_cannot_be_computed_from_the_middle() -> None:
    cluster = running(RUNNING)
    with pytest.raises(CommandFailed, match="what totals holds depends on all that came before") as failed:
        replayed(cluster)
    assert "keep_cuts: true" in failed.value.hint


@pytest.mark.parametrize("kept", ["keep_cuts: true\n", "replay_horizon_s: 3600\n"])
def test_a_job_may_keep_its_cuts(kept: str) -> None:
    cluster = running(JOB.replace("replay_horizon_s: 0\n", kept))
    assert start(cluster) == 0
    assert replayed(cluster).exact


def test_the_newest_batch_is_known_when_no_cut_is_left() -> None:
    cluster = running()
    newest = newest_cut(cluster.log, cut_log(cluster))
    snapshot = snapshots(cluster)[-1]
    cluster.log.trim({cut_log(cluster): snapshot.state.upto})
    assert newest_cut(cluster.log, cut_log(cluster)) == newest


def snapshots(cluster: MemoryCluster) -> list[Snapshot]:
    records = (cuts.decode(message.value() or b"") for message in cluster.log.scan(cut_log(cluster)))
    return [record for record in records if isinstance(record, Snapshot)]


def test_repair_finds_nothing_wrong_in_a_trimmed_log() -> None:
    cluster = running()
    assert Search(cluster.log, cluster.plan, cluster.topics, {}).lines() == []
