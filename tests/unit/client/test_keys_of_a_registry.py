"""Keys that name their schema: columns, deletions, keys of sinks; and the subjects of all strategies."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import numpy as np
import pytest
from google.protobuf import descriptor_pb2

from holdfast.schemas.topics import Partition
from holdfast.services.client.in_memory_cluster import InMemoryCluster
from holdfast.services.client.local_run import complete, of_files
from holdfast.services.client.planned_job import plan
from holdfast.services.client.registration import with_schemas
from holdfast.services.client.registry_fields import with_fields
from holdfast.services.kernel.codecs.decoder import Decoded
from holdfast.services.kernel.codecs.metadata import Metadata
from holdfast.services.kernel.codecs.registered import WriterSchema
from holdfast.services.kernel.dataflow.source_records import SourceDecoder
from holdfast.services.log.kafka.registry import Registry
from holdfast.services.log.patience import Patience
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from tests.support.avro import Known, avro, framed, record

AT_ONCE = Patience(0.0, lambda text: None)
KEY = record(("user", "string"), ("shop", ["null", "long"]), name="Key")
FIELDS = {
    "n": "int",
    "user": {"type": "string", "metadata": "key.user"},
    "of": {"type": "int?", "metadata": "key.shop"},
}


def job(sink: dict[str, Any] | None = None, **source: Any) -> dict[str, Any]:
    given = {"topic": "in", "fields": FIELDS, "key_format": "avro", **source}
    query = {"input": "s", "sink": {"topic": "out", **(sink or {})}}
    return {"name": "j", "sources": {"s": given}, "queries": {"q": query}}


def decoded(raw: dict[str, Any], keys: list[bytes | None], schemas: Known, gone: bool = False) -> Decoded:
    """Records {"n":0}, {"n":1} and so on with these keys; or deletions."""
    if raw["sources"]["s"].get("table"):  # which only a join reads
        joined = {"t": {"topic": "t", "fields": {"k": "string", "of": "int"}}, "s": raw["sources"]["s"]}
        on = ["k = user", "of"][: len(raw["sources"]["s"]["table"])]
        join = {"join": {"left": "t", "right": "s", "on": on, "kind": "left"}}
        raw = {**raw, "sources": joined, "operators": {"o": join}, "queries": {"q": {"input": "o"}}}
    made = plan(complete(interpret(raw)), None, "holdfast", [])
    source = next(one for one in made.operators if one.name == "s")
    decoder = SourceDecoder(source, schemas)
    values = [None if gone else json.dumps({"n": n}).encode() for n in range(len(keys))]
    places = np.arange(len(keys))
    about = Metadata(places, places, places, keys)
    return decoder.decode(values, [0] * len(keys), dict(enumerate(keys)) if gone else {}, metadata=about)


def test_fields_of_a_key_are_columns_and_a_key_that_cannot_be_read_is_refused() -> None:
    good = framed(1, avro(KEY, {"user": "a", "shop": 7}))
    keys = [good, None, b"plain", framed(9, b""), framed(1, b"\x02"), framed(1, avro(KEY, {"user": "b", "shop": None}))]
    found = decoded(job(), keys, Known({1: KEY}))
    assert found.rows.select("n", "user", "of").rows() == [(0, "a", 7), (5, "b", None)]
    assert found.kept.tolist() == [0, 5]
    assert found.unknown == (9,)
    assert found.refused == [
        (1, "user: the record has no key, expected string"),
        (2, "of its key, begins with the byte 0x70, not with 0 and the id of a schema of a registry"),
        (3, "of its key, the registry does not know schema 9"),
        (4, "of its key, user: the record ends within it"),
    ]


@pytest.mark.parametrize(
    ("format", "schema", "kind", "keys"),
    [
        ("avro", "long", "AVRO", [b"\x0a", b"\x80", b""]),
        ("json-schema", {"type": "integer"}, "JSON", [b"5", b'5,"x":1', b'{"a":5}']),
    ],
)
def test_a_key_that_is_one_value_is_a_column_of_any_type(
    format: str, schema: Any, kind: str, keys: list[bytes]
) -> None:
    raw = job(key_format=format, fields={"n": "int", "id": {"type": "int?", "metadata": "key"}})
    given = [None, *(framed(1, key) for key in keys)]
    found = decoded(raw, given, Known({1: schema}, kind=kind))
    assert found.rows.select("n", "id").rows() == [(0, None), (1, 5)]
    assert [place for place, _ in found.refused] == [2, 3]


def test_a_record_as_a_key_is_no_value_and_its_fields_are_named() -> None:
    raw = job(fields={"n": "int", "id": {"type": "string?", "metadata": "key"}})
    found = decoded(raw, [framed(1, avro(KEY, {"user": "a", "shop": 7}))], Known({1: KEY}))
    assert found.refused == [
        (0, "of its key, schema 1 is a record: `metadata: key.NAME` names one of user, shop")
    ]  # fmt: skip


def test_deletions_of_a_table_are_read_by_the_schema_of_their_keys() -> None:
    keys = [framed(1, avro(KEY, {"user": "a", "shop": 7})), framed(2, avro("string", "b")), framed(9, b""), b"c", None]
    schemas = Known({1: KEY, 2: "string"})
    for raw in (job(table=["user"]), job(fields={"user": "string", "n": "int"}, table=["user"])):
        found = decoded(raw, keys, schemas, gone=True)
        assert found.rows["user"].to_list() == ["a", "b"]
        assert found.rows["_deleted"].to_list() == [True, True]
        assert (found.unknown, [place for place, _ in found.refused]) == ((9,), [2, 3, 4])
    two = decoded(job(table=["user", "of"], fields={**FIELDS, "of": {"type": "int", "metadata": "key.shop"}}),
                  keys[:2], schemas, gone=True)  # fmt: skip
    assert two.rows.select("user", "of").rows() == [("a", 7)]
    assert "schema 2 is of type string, no record with fields" in two.refused[0][1]


def test_a_key_of_protobuf_is_a_message() -> None:
    import base64

    file = descriptor_pb2.FileDescriptorProto(name="k.proto", syntax="proto3")
    message = file.message_type.add(name="Key")
    message.field.add(name="user", number=1, type=9, label=1)
    message.field.add(name="shop", number=2, type=3, label=1)
    text = base64.b64encode(file.SerializeToString()).decode()

    class One:
        def find(self, id: int) -> WriterSchema | None:
            return WriterSchema("PROTOBUF", text)

    found = decoded(job(key_format="protobuf"), [framed(1, b"\0\x0a\x01a\x10\x07"), framed(1, b"\0\xff")], One())  # type: ignore[arg-type]
    assert found.rows.select("user", "of").rows() == [("a", 7)]
    assert found.refused[0][1].startswith("of its key, no message of its schema")


def test_mistakes_of_keys_are_named_with_what_to_write() -> None:
    def problems(raw: dict[str, Any]) -> dict[str, str]:
        return {one.path: one.message for one in check(interpret(raw), []).problems}

    assert "sources.s.fields.user" in problems(job(key_format=None))
    assert problems(job(key_format="protobuf", fields={"n": "int", "k": {"type": "int", "metadata": "key"}})) == {
        "sources.s.fields.k": "a key of protobuf is a message"
    }
    assert "sources.s.record" in problems(job(format="avro", subject_strategy="record"))
    assert "sources.s.subject_strategy" in problems(job(subject_strategy="topic-record"))
    assert "sources.s.on_schema_change" in problems(job(key_format=None, fields={"n": "int"}, on_schema_change="fail"))
    sink = {"format": "avro", "record": "1shop"}
    assert "queries.q.sink.record" in problems(job(sink))
    assert "queries.q.sink.key_format" in problems(job({"key_format": "avro"}))
    assert "queries.q.sink.key_schema_id" in problems(job({"key_schema_id": 1}))
    assert "queries.q.sink.record" in problems(job({"format": "avro", "subject_strategy": "record"}))
    files = of_files(complete(interpret(job({"key_format": "avro", "key": "user"})))).model_dump()
    assert files["sources"]["s"]["fields"]["user"] == "string"
    assert "key_format" not in files["sources"]["s"] | files["queries"]["q"]["sink"]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("topic", "in-value"), ("record", "shop.Order"), ("topic-record", "in-shop.Order")],
)
def test_the_strategy_says_under_which_subject_the_fields_are_found_and_the_schema_is_registered(
    strategy: str, subject: str
) -> None:
    registry = Registry("mock://", {})
    registry.register(subject, WriterSchema("AVRO", json.dumps(record(("user", "string"), ("amount", "double")))))
    registry.register("in-key", WriterSchema("AVRO", json.dumps(KEY)))
    named: dict[str, Any] = {"subject_strategy": strategy, "record": "shop.Order", "format": "avro"}
    source: dict[str, Any] = {"topic": "in", "key_format": "avro", **named}
    raw = with_fields(job(**source, fields={}), lambda: registry, lambda: AT_ONCE)
    assert raw["sources"]["s"]["fields"] == {
        "user": "string", "amount": "float", "shop": {"type": "int?", "metadata": "key.shop"}
    }  # fmt: skip
    raw = registered({**raw, "queries": {"q": {"input": "s", "sink": {"topic": "out", **named}}}}, registry)
    newest = registry.newest(subject.replace("in-", "out-"))
    assert newest is not None
    assert newest.id == raw["queries"]["q"]["sink"]["schema_id"]
    assert json.loads(newest.schema.text)["name"] == "shop.Order"


def registered(raw: dict[str, Any], registry: Registry) -> dict[str, Any]:
    spec = interpret(raw)
    return with_schemas(raw, spec, lambda: plan(spec, None, "holdfast", []), lambda: registry, lambda: AT_ONCE)


@pytest.mark.parametrize("format", ["avro", "json-schema"])
@pytest.mark.parametrize("key", ["json", "text", "n"])
def test_a_sink_writes_keys_by_their_schema_and_a_null_is_no_key(format: str, key: str) -> None:
    registry = Registry("mock://", {})
    fields = {"k": "string", "n": "int?"}
    raw = {
        "name": "j",
        "sources": {"s": {"topic": "in", "fields": fields}},
        "operators": {"o": {"aggregate": {"n": "max(n)"}, "key": ["k"], "input": "s"}},
        "queries": {"q": {"input": "o", "sink": {"topic": "out", "key": key, "key_format": format}}},
    }
    raw = registered(raw, registry)
    id = raw["queries"]["q"]["sink"]["key_schema_id"]  # type: ignore[index]
    newest = registry.newest("out-key")
    assert newest is not None
    assert newest.id == id
    cluster = InMemoryCluster(interpret(raw), [])
    cluster.create_topics()
    cluster.log.appender("test").append(Partition("in", 0), b'{"k":"a","n":null}')
    cluster.log.appender("test").append(Partition("in", 0), b'{"k":"b","n":-3}')
    cluster.submit()
    made = cluster.until(cluster.plan)
    cluster.until(lambda: cluster.all_are(made, "running") or None)
    cluster.drain(made)
    cluster.until(lambda: cluster.all_are(made, "ended") or None)
    found = [message.key() for message in cluster.log.scan(Partition("out", 0))]
    values = [None if one is None else value(one, format, id, newest.schema.text) for one in found]
    wanted: dict[str, list[Any]] = {"json": [{"k": "a"}, {"k": "b"}], "text": ["a", "b"], "n": [None, -3]}
    assert sorted(values, key=str) == sorted(wanted[key], key=str)


def value(key: bytes, format: str, id: int, schema: str) -> Any:
    assert key[:5] == b"\0" + id.to_bytes(4, "big")
    if format == "json-schema":
        return json.loads(key[5:])
    return fastavro.schemaless_reader(io.BytesIO(key[5:]), fastavro.parse_schema(json.loads(schema)), None)
