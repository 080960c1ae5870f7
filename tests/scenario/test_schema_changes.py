"""A schema that a job's fields cannot be read from any more: dead letters or a failed job, with subject and version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.services.audit import sources
from holdfast.services.audit.replay import replay
from holdfast.services.kernel.codecs.registered import WriterSchema
from tests.support.avro import Known, avro, framed, record
from tests.support.memory_cluster import MemoryCluster

JOB = """
name: orders
sources:
  orders: {topic: orders, format: FORMAT, fields: {shop: string, n: int?}, on_schema_change: SETTING}
queries: {all: {input: orders, sink: {topic: all}}}
"""
OLD, NEW = record(("shop", "string"), ("n", "long")), record(("store", "string"))
TYPED = {"type": "object", "properties": {"shop": {"type": "string"}}, "required": ["shop"]}
OTHER = {"type": "object", "properties": {"shop": {"type": "integer"}}, "required": ["shop"]}
CHANGED = (
    "schema 2, version 2 of orders-value, has no field shop, expected string: a field that may be absent is string?"
)


class Versioned(Known):
    """Each id is the version of that number, of the topic's subject and of another one."""

    def __init__(self, schemas: Mapping[int, Any], kind: str = "AVRO") -> None:
        super().__init__(schemas, kind)
        self.schemas = {
            id: one._replace(versions=(("another", 9), ("orders-value", id))) for id, one in self.schemas.items()
        }


def run(setting: str, format: str, schemas: Known, records: list[bytes]) -> tuple[MemoryCluster, list[str]]:
    """The cluster, and why copies failed."""
    job = JOB.replace("SETTING", setting).replace("FORMAT", format)
    cluster = MemoryCluster(job, schemas=schemas)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.feed("orders", records)
    cluster.turn(40)
    return cluster, [copy.error for copy in worker.copies() if copy.state == "failed"]


RECORDS = [framed(1, avro(OLD, {"shop": "a", "n": 1})), framed(2, avro(NEW, {"store": "b"}))]


def test_records_of_a_changed_schema_are_dead_letters_that_name_subject_and_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schemas = Versioned({1: OLD, 2: NEW})
    cluster, failed = run("dead-letter", "avro", schemas, [*RECORDS, RECORDS[0]])
    assert failed == []
    cluster.run_to_end()
    assert [row["n"] for row in cluster.rows("all")] == [1, 1]
    monkeypatch.setattr(sources, "of_this_process", lambda: schemas)
    report = replay(cluster.log, cluster.cluster, "orders")
    assert (report.exact, report.dead_letters.results) == (True, 1)


def test_the_job_stops_where_it_says_so_and_nothing_of_the_new_schema_is_taken_in() -> None:
    cluster, failed = run("fail", "avro", Versioned({1: OLD, 2: NEW}), RECORDS)
    (error,) = failed
    assert f"{CHANGED}: mend the job's fields" in error
    assert [row["n"] for row in cluster.rows("all")] in ([], [1])


def test_a_schema_of_json_stops_the_job_by_its_properties_and_a_bad_record_alone_does_not() -> None:
    schemas = Versioned({1: TYPED, 2: OTHER}, kind="JSON")
    _, failed = run(
        "fail", "json-schema", schemas, [framed(1, b'{"shop":"a"}'), framed(1, b'{"shop":5}'), framed(1, b"{")]
    )
    assert failed == []
    _, failed = run("fail", "json-schema", schemas, [framed(2, b'{"shop":5}')])
    assert "schema 2, version 2 of orders-value, has shop as int, expected string" in failed[0]


def test_a_schema_without_the_subject_of_the_source_is_named_by_another_one_or_by_its_id() -> None:
    plain = WriterSchema("AVRO", "")
    assert plain.called(7, "orders-value") == "schema 7"
    assert plain._replace(versions=(("b", 2), ("a", 1))).called(7, "c") == "schema 7, version 1 of a,"
