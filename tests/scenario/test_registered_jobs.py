"""Jobs whose records name schemas of a registry: replayed, tried, and on a worker that can ask no registry."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from holdfast import Job, query, source
from holdfast.services.audit.replay import replay
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.errors import NoRegistry
from holdfast.services.log.kafka import registry as log_registry
from holdfast.services.log.kafka.registry import COMMAND, of_this_process
from tests.support.avro import avro, framed, record
from tests.support.memory_cluster import MemoryCluster
from tests.support.registry import HttpRegistry, http_registry

JOB = """
name: orders
sources:
  orders: {topic: orders, format: avro, fields: {shop: string, amount: float, at: timestamp}, event_time: at}
operators: {hourly: {aggregate: {total: "sum(amount)"}, key: [shop], input: orders, window: {size_s: 3600}}}
queries: {hours: {input: hourly, sink: {topic: hours}}}
"""
AT = {"type": "long", "logicalType": "timestamp-millis"}
OLD = record(("shop", "string"), ("amount", "int"), ("at", AT))
NEW = record(("at", AT), ("note", ["null", "string"]), ("amount", "double"), ("shop", "string"))
HOUR_MS = 3_600_000
FIELDS = {"shop": "string", "amount": "float"}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpRegistry]:
    with http_registry() as found:
        monkeypatch.setenv(log_registry.URL, found.url)
        of_this_process.cache_clear()
        yield found
    of_this_process.cache_clear()


def old(n: int) -> bytes:
    return framed(1, avro(OLD, {"shop": "a", "amount": n, "at": n * HOUR_MS}))


def new(n: int) -> bytes:
    return framed(2, avro(NEW, {"shop": "b", "amount": n + 0.5, "at": n * HOUR_MS, "note": "x" * n}))


def test_a_job_over_a_registry_replays_exact_through_a_kill_and_a_schema_that_the_registry_learns_later(
    registry: HttpRegistry,
) -> None:
    registry.add(1, OLD)
    registry.add(2, NEW)
    cluster = MemoryCluster(JOB, schemas=of_this_process())
    cluster.place({unit: [cluster.start("w1")] for unit in cluster.units})
    cluster.feed("orders", [old(1), new(1), framed(3, b"\0"), old(2), b"{}"])
    cluster.turn(60)
    cluster.kill("w1")
    registry.add(3, OLD)
    of_this_process.cache_clear()
    cluster.place({unit: [cluster.start("w2")] for unit in cluster.units})
    cluster.feed("orders", [new(3), old(3)])
    cluster.run_to_end()
    rows = [(row["shop"], row["total"]) for row in cluster.rows("hours")]
    assert sorted(rows) == [("a", 1.0), ("a", 2.0), ("a", 3.0), ("b", 1.5), ("b", 3.5)]
    report = replay(cluster.log, cluster.cluster, "orders")
    assert (report.exact, report.rows.results, report.dead_letters.results) == (True, 5, 2)


def test_a_worker_whose_client_is_not_installed_starts_and_the_job_that_needs_it_fails_with_the_command(
    registry: HttpRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    schemas = of_this_process()
    with pytest.raises(NoRegistry, match="no client of a Schema Registry"):
        schemas.find(1)
    cluster = MemoryCluster(JOB, schemas=schemas)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.turn(20)
    failed = [copy.error for copy in worker.copies() if copy.state == "failed"]
    assert len(failed) == 1
    assert "source orders reads avro" in failed[0]
    assert COMMAND in failed[0]
    plain = MemoryCluster(JOB.replace("avro", "json"), schemas=schemas)
    plain.place({unit: [plain.start("w1")] for unit in plain.units})
    plain.feed("orders", [{"shop": "a", "amount": 1, "at": "2020-01-01T00:00:00Z"}])
    plain.run_to_end()
    assert len(plain.rows("hours")) == 1


def test_try_reads_bytes_by_the_registry_and_mappings_as_rows(registry: HttpRegistry) -> None:
    registry.add(1, OLD)
    orders = source(topic="orders", format="avro", fields=FIELDS)
    job = Job(name="orders", sources={"orders": orders}, queries={"all": query(input="orders")})
    tried = job.try_({"orders": [old(1), framed(9, b"")]})
    assert tried["all"].rows() == [("a", 1.0)]
    assert tried.dead_letters["reason"].to_list() == ["the registry does not know schema 9"]
    assert job.try_({"orders": [{"shop": "c", "amount": 2.5}]})["all"].rows() == [("c", 2.5)]
    with pytest.raises(UnusableFile, match="source 'orders' is given bytes and mappings"):
        job.try_({"orders": [old(1), {"shop": "c", "amount": 2.5}]})
