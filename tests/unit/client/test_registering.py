"""Sinks of records that name a schema: registered when the job is submitted, written and read back, or refused."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import OperatorPlan, Plan
from holdfast.schemas.topics import Partition
from holdfast.services.client.in_memory_cluster import InMemoryCluster
from holdfast.services.client.local_run import complete, of_files
from holdfast.services.client.planned_job import plan
from holdfast.services.client.registration import with_schemas
from holdfast.services.kernel.dataflow.sink_records import json_rows
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.log.kafka.registry import Registry
from holdfast.services.log.patience import Patience
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from holdfast.services.view.rows import rows_of

FIELDS = {"k": "string", "n": "int?", "at": "timestamp"}
RECORD = b'{"k":"a","n":5,"at":"2026-01-02T03:04:05.000006Z"}'


def job(format: str = "avro", select: list[str] | None = None, **sink: Any) -> dict[str, Any]:
    return {
        "name": "j",
        "sources": {"s": {"topic": "in", "fields": FIELDS}},
        "operators": {"o": {"select": select or ["*"], "input": "s"}},
        "queries": {"q": {"input": "o", "sink": {"topic": "out", "format": format, "key": "k", **sink}}},
    }


def planned(spec: JobSpec) -> Plan:
    return plan(spec, None, "holdfast", [])


def registered(raw: dict[str, Any], registry: Registry | None) -> dict[str, Any]:
    spec = interpret(raw)
    patience = Patience(0.0, lambda text: None)
    return with_schemas(raw, spec, lambda: planned(spec), lambda: registry, lambda: patience)


def delivered(raw: dict[str, Any]) -> tuple[OperatorPlan, list[bytes]]:
    """The sink, and the values of its records."""
    cluster = InMemoryCluster(interpret(raw), [])
    cluster.create_topics()
    cluster.log.appender("test").append(Partition("in", 0), RECORD)
    cluster.submit()
    made = cluster.until(cluster.plan)
    cluster.until(lambda: cluster.all_are(made, "running") or None)
    cluster.drain(made)
    cluster.until(lambda: cluster.all_are(made, "ended") or None)
    values = [message.value() or b"" for message in cluster.log.scan(Partition("out", 0))]
    return next(one for one in made.operators if one.kind == "sink"), values


@pytest.mark.parametrize("format", ["avro", "json-schema", "protobuf"])
def test_the_schema_is_registered_written_into_the_job_and_named_by_each_record(format: str) -> None:
    registry = Registry("mock://", {})
    raw = registered(job(format), registry)
    id = raw["queries"]["q"]["sink"]["schema_id"]
    newest = registry.newest("out-value")
    assert newest is not None
    assert newest.id == id
    assert registered(raw, None) == raw  # it has an id, so no registry is asked
    sink, (value,) = delivered(raw)
    assert value[:5] == b"\0" + id.to_bytes(4, "big")
    if format == "avro":
        schema = fastavro.parse_schema(json.loads(newest.schema.text))
        found: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
        assert (found["k"], found["n"], found["at"].isoformat()) == ("a", 5, "2026-01-02T03:04:05.000006+00:00")
    assert list(json_rows(sink)(value)) == list(rows_of(sink, value)) == [RECORD]
    assert rows_of(sink, None) == [b"null"]


def test_equal_columns_have_one_schema_under_the_subject_that_is_named() -> None:
    registry = Registry("mock://", {})
    selects = (None, ["k", "n", "at"], ["k"])
    jobs = [registered(job(subject="shop.Row", select=one), registry) for one in selects]
    ids = [one["queries"]["q"]["sink"]["schema_id"] for one in jobs]
    assert ids[0] == ids[1] != ids[2]
    assert registry.newest("out-value") is None


def test_a_field_of_protobuf_keeps_its_number_in_every_later_job() -> None:
    registry = Registry("mock://", {})
    registered(job("protobuf", ["k", "at", "n"], record="shop.Order", key_format="protobuf"), registry)
    raw = registered(job("protobuf", ["n", "n + 1 AS m", "k"], record="shop.Order", key_format="protobuf"), registry)
    given = raw["queries"]["q"]["sink"]
    assert given["field_numbers"] == {"n": 3, "m": 4, "k": 1}
    newest = registry.newest("out-value")
    assert newest is not None
    assert (newest.id, newest.version) == (given["schema_id"], 2)
    sink, (value,) = delivered(raw)
    assert value[5:] == b"\0\n\1a\x18\5\x20\6"
    assert list(rows_of(sink, value)) == [b'{"n":5,"m":6,"k":"a"}']
    fewer = registered(job("protobuf", ["k", "n"], record="shop.Order"), registry)
    assert fewer["queries"]["q"]["sink"]["schema_id"] == newest.id  # the message has all of these columns
    with pytest.raises(JobRejected) as error:
        registered(job("protobuf", ["k", "k AS n"]), registry)
    assert [(one.path, one.message) for one in error.value.problems] == [
        (
            "queries.q.sink.format",
            "version 2 of out-value has n as int64, and the column is string?, which is written as string",
        )
    ]
    with pytest.raises(JobRejected, match=r"begins with the message shop.Order, and `record` is shop.Row"):
        registered(job("protobuf", record="shop.Row"), registry)


def test_numbers_of_fields_are_given_for_all_of_them_and_each_once() -> None:
    def problems(format: str = "protobuf", select: list[str] | None = None, **numbers: int) -> list[tuple[str, str]]:
        found = check(interpret(job(format, select, schema_id=1, field_numbers=numbers)), []).problems
        return [(one.path.removeprefix("queries.q.sink."), one.message) for one in found]

    assert problems(k=3, n=2, at=1) == []
    assert problems("avro", k=1) == [("field_numbers", "a sink of format avro has none")]
    assert problems(k=1, n=2, x=3) == [
        ("field_numbers.x", "there is no field 'x'"),
        ("field_numbers.at", "is missing: either every field has a number here, or none"),
    ]
    assert problems(k=1, n=2, at=2) == [("field_numbers.at", "2 is the number of 'n', too")]
    assert problems(select=["k", "n AS a_b", "n AS aB"]) == [
        ("format", "'a_b' and 'aB' are one name in the JSON of protobuf")
    ]


def test_a_job_without_an_id_is_refused_with_what_to_do() -> None:
    with pytest.raises(JobRejected, match="HOLDFAST_REGISTRY_URL names it"):
        registered(job(), None)
    cluster = InMemoryCluster(interpret(job()), [])
    cluster.create_topics()
    cluster.submit()
    with pytest.raises(JobRejected, match="`holdfast submit` registers it"):
        cluster.until(cluster.plan)
    problems = {one.path: one for one in check(interpret(job(select=['n AS "a b"', "k"])), []).problems}
    assert '"a b" AS a_b' in problems["queries.q.sink.format"].hint
    found = [one.path for one in check(interpret(job("json", subject="x", schema_id=1)), []).problems]
    assert found == ["queries.q.sink.subject", "queries.q.sink.schema_id"]


def test_a_job_on_files_writes_json() -> None:
    sink = of_files(complete(interpret(job(schema_id=3)))).queries["q"].sink
    assert sink is not None
    assert (sink.format, sink.schema_id) == ("json", None)
