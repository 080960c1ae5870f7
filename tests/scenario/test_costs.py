"""What copies count agrees with what was fed, whatever happens to them: records of every edge, keys of the state."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from holdfast.schemas.assignments import PRIMARY, Flags
from holdfast.schemas.costs import Costs
from holdfast.schemas.topics import Partition
from holdfast.schemas.topics import edge as edge_of
from holdfast.services.hosting.lags import of_lags
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.worker.checkpoint.restore import rebuild
from holdfast.services.worker.process.loop import Worker
from holdfast.services.worker.unit.batches.batch_processor import BatchProcessor
from tests.support.memory_cluster import GENERATION, MemoryCluster
from tests.support.orders import JOB, Order, check, orders

SUSPENDED = Flags(commit=False, process=False, send=False)


def feed(cluster: MemoryCluster, fed: list[Order]) -> None:
    for partition in (0, 1):
        cluster.feed("orders", fed[partition::2], partition)


def costs(cluster: MemoryCluster, *workers: Worker) -> dict[str, Costs]:
    keys = [f"{cluster.plan.job}@{GENERATION}/{unit}" for unit in cluster.units]
    return {one.unit.split("/")[1]: one for worker in workers for one in worker.costs(keys)}


def check_edges(cluster: MemoryCluster, fed: list[Order], found: dict[str, Costs]) -> None:
    """Each edge carries as many records as go in and come out."""
    into: Counter[str] = Counter()
    out: Counter[str] = Counter()
    for one in found.values():
        into.update({edge: records for edge, (records, _) in one.inputs.items()})
        out.update(one.outputs)
    assert into["orders"] == len(fed)
    between = {edge_of(edge.topic) for edge in cluster.plan.edges if edge.topic is not None}
    assert between, "some units are fed by others"
    assert {edge: into[edge] for edge in between} == {edge: out[edge] for edge in between}
    for operator in cluster.plan.operators:
        if operator.kind == "sink":
            assert out[operator.name] == len(cluster.rows(operator.params["query"])), operator.name


def check_keys(cluster: MemoryCluster) -> None:
    """Each marker says how many keys an image has that is restored from it."""
    for unit in cluster.plan.units:
        restored = rebuild(cluster.log, Partition(cluster.topics.checkpoints, unit.partition), MemoryImage())
        assert restored.marker is not None
        assert restored.keys == sum(1 for _ in restored.image.scan(b"")), unit.name


def test_a_unit_pays_for_its_own_batches_and_for_none_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """MECHANISMS C5. One turn of a worker takes the batches of several units one after the other."""
    cluster, batches, batch_ms = MemoryCluster(JOB), 0, 10
    do_next = BatchProcessor.do_next

    def slow(self: BatchProcessor, *given: Any) -> bool:
        nonlocal batches
        cluster.now_ms += batch_ms
        batches += 1
        return do_next(self, *given)

    monkeypatch.setattr(BatchProcessor, "do_next", slow)
    feed(cluster, orders(400))
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.run_to_end()
    assert batches >= len(cluster.units) > 1
    assert sum(one.process_ms for one in costs(cluster, worker).values()) == batches * batch_ms


def test_the_counts_of_an_undisturbed_run_are_those_of_what_was_fed() -> None:
    fed = orders(400)
    cluster = MemoryCluster(JOB)
    feed(cluster, fed)
    workers = [cluster.start(name) for name in ("w1", "w2")]
    cluster.place({unit: [workers[index % 2]] for index, unit in enumerate(cluster.units)})
    cluster.turn(1_200)
    check_keys(cluster)
    cluster.run_to_end()
    check(cluster.rows, fed)
    found = costs(cluster, *workers)
    assert set(found) == set(cluster.units)
    check_edges(cluster, fed, found)
    check_keys(cluster)
    assert sum(one.inputs["orders"][1] for one in found.values() if "orders" in one.inputs) == sum(
        len(msgspec.json.encode(order)) for order in fed
    )
    large = sum(order["amount"] >= 10 for order in fed)
    per_shop = [one for unit, one in found.items() if unit.startswith("per_shop")]
    assert sum(sum(records for records, _ in one.inputs.values()) for one in per_shop) == large
    for one in found.values():
        assert one.processed == sum(records for records, _ in one.inputs.values())
        assert one.captures > 0
        assert one.checkpoint_bytes >= one.run_bytes > 0
        assert None not in (one.deploy_ms, one.restore_ms, one.receive_ms, one.checkpoint_age_ms)
        assert (one.send_ms is not None) == (one.sent_bytes > 0)
    sent = sum(one.sent_bytes for one in found.values())
    assert sent > sum(size for one in found.values() for edge, (_, size) in one.inputs.items() if edge != "orders") > 0


def test_a_copy_that_takes_over_continues_the_counts_of_the_last_marker() -> None:
    fed = orders(600)
    cluster = MemoryCluster(JOB)
    workers = {name: cluster.start(name) for name in ("w1", "w2")}
    cluster.place({unit: [workers["w1"]] for unit in cluster.units})
    for start in range(0, len(fed), 100):
        feed(cluster, fed[start : start + 100])
        cluster.turn(350)
        if start == 200:
            cluster.kill("w1")
            workers["w1"] = cluster.start("w1")
            cluster.place({unit: [workers["w1" if index % 2 else "w2"]] for index, unit in enumerate(cluster.units)})
    cluster.run_to_end()
    check(cluster.rows, fed)
    found = costs(cluster, *workers.values())
    check_edges(cluster, fed, found)
    check_keys(cluster)
    processed = sum(one.processed for one in found.values() if "orders" in one.inputs)
    assert processed < len(fed), "the time spent is this process's, so are the records that it was spent on"


def test_a_standby_counts_what_it_applies_and_has_the_keys_of_the_leader() -> None:
    fed = orders(300)
    cluster = MemoryCluster(JOB)
    leader, standby = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [leader, (standby, SUSPENDED)] for unit in cluster.units})
    for start in range(0, len(fed), 60):
        feed(cluster, fed[start : start + 60])
        cluster.turn(400)
    cluster.turn(5_000)  # at rest, so that both are as of the same batch
    led, followed = costs(cluster, leader), costs(cluster, standby)
    assert {unit: one.state_keys for unit, one in followed.items()} == {u: one.state_keys for u, one in led.items()}
    assert sum(one.state_keys for one in led.values()) > 0
    assert {unit: one.inputs for unit, one in followed.items()} == {unit: one.inputs for unit, one in led.items()}
    assert all(one.unsaved == 0 for one in led.values()), "a job at rest has saved all"
    for one in followed.values():
        assert one.applies > 0
        assert (one.processed, one.captures, one.send_ms, one.open_ms) == (0, 0, None, None)
    cluster.kill("w1")
    cluster.place({unit: [(standby, PRIMARY)] for unit in cluster.units})
    cluster.run_to_end()
    check(cluster.rows, fed)
    check_edges(cluster, fed, costs(cluster, standby))
    check_keys(cluster)
    assert all(one.replay_ms is not None for one in costs(cluster, standby).values()), "what its takeover took"


def test_the_leaders_alone_count_for_their_job_and_know_how_far_they_are_behind() -> None:
    fed = orders(300)
    cluster = MemoryCluster(JOB)
    leader, standby = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [leader, (standby, SUSPENDED)] for unit in cluster.units})
    feed(cluster, fed)
    cluster.turn(2_000)
    led, followed = costs(cluster, leader), costs(cluster, standby)
    assert sum(one.records for one in led.values()) == len(fed)
    assert [(one.leads, one.records) for one in followed.values()] == [(False, 0)] * len(followed)
    delivering = {unit.name for unit in cluster.plan.units if unit.delivers}
    assert {unit for unit, one in led.items() if one.transactions} == delivering
    sinks = [operator for operator in cluster.plan.operators if operator.kind == "sink"]
    for sink in sinks:
        delivered = sum(one.sink_bytes.get(sink.name, 0) for one in led.values())
        rows = cluster.rows(sink.params["query"])
        assert delivered > 10 * len(rows) > 0, sink.name
    (lags,) = (list(of_lags(cluster.log, leader.taken)()),)
    assert {(lag.labels[3], lag.value) for lag in lags} == {("orders", 0.0)}, "all was read"
    feed(cluster, fed[:30])
    assert sum(lag.value for lag in of_lags(cluster.log, leader.taken)()) == 30
    assert not list(of_lags(cluster.log, standby.taken)())


def test_costs_are_asked_for_by_unit() -> None:
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.turn(50)
    first = f"{cluster.plan.job}@{GENERATION}/{cluster.units[0]}"
    assert [one.unit for one in worker.costs([first, "nobody"])] == [first]
