"""Change records of Debezium as a stream and as a table: every op, the wrapper of Kafka Connect, what is no change."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Job, query, renamed, select, source
from holdfast.schemas.jobs import Source
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.client.registry_fields import with_fields
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.codecs.decoder import Decoded
from holdfast.services.kernel.codecs.registered import WriterSchema
from holdfast.services.kernel.dataflow.source_records import SourceDecoder
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.log.kafka.registry import Registry
from holdfast.services.log.patience import Patience
from holdfast.services.planning import source_streams, spark_inputs
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from tests.support.avro import Known, framed
from tests.support.examples import examples

FIELDS: dict[str, Any] = {"id": "int", "price": "decimal(8,2)?", "name": {"type": "string", "from": "full name"}}
T_MS = 1_700_000_000_000


def decoder(format: str = "json", **more: Any) -> SourceDecoder:
    given = {"topic": "in", "fields": FIELDS, "envelope": "debezium", "format": format, **more}
    parsed = Source.model_validate(given)
    stream = source_streams.stream(parsed)
    params = parsed.model_dump(mode="json")
    plan = OperatorPlan("s", "source", 1, (), params, stream.fields, stream.row_key)
    return SourceDecoder(plan, Known({7: {}}, "JSON"))


def decoded(values: list[bytes | None], keys: dict[int, bytes | None] | None = None, **more: Any) -> Decoded:
    return decoder(**more).decode(values, [T_MS] * len(values), keys or {})


def row(id: int, name: str = "a", price: str | None = "1.50") -> dict[str, Any]:
    return {"id": id, "full name": name, "price": price}


def change(op: str, after: Any = None, before: Any = None, wrapped: bool = False) -> bytes:
    inside = {"before": before, "after": after, "source": {"db": "shop"}, "op": op, "ts_ms": 1}
    return json.dumps({"schema": {"type": "struct"}, "payload": inside} if wrapped else inside).encode()


CHANGES: list[bytes | None] = [
    change("r", row(1)),
    change("c", row(2), wrapped=True),
    None,
    change("u", row(1, "b", None), row(1)),
    change("d", None, row(2, "z")),
    None,
]


@pytest.mark.parametrize("format", ["json", "json-schema"])
def test_a_stream_has_a_row_for_each_change_with_what_happened_to_it(format: str) -> None:
    values = [framed(7, value) if value and format != "json" else value for value in CHANGES]
    found = decoded(values, format=format)
    assert found.refused == []
    assert found.rows.columns == ["id", "price", "name", "op", "_time"]
    assert found.rows.select("id", "name", "op").rows() == [(1, "a", "r"), (2, "a", "c"), (1, "b", "u"), (2, "z", "d")]
    assert found.kept.tolist() == [0, 1, 3, 4]


def test_a_row_whose_text_is_not_utf_8_is_refused_beside_others() -> None:
    found = decoded([change("c", row(1)), b'{"op":"c","after":"\xff"}', change("c", json.dumps(row(2)))])
    assert found.rows["id"].to_list() == [1, 2]
    assert [place for place, _ in found.refused] == [1]


def test_a_table_takes_the_newest_row_and_deletes_by_a_change_and_by_a_tombstone() -> None:
    keys: dict[int, bytes | None] = {2: b'{"schema":{},"payload":{"id":9}}', 5: b'{"id":2}'}
    found = decoded(CHANGES, keys, table=["id"])
    assert found.refused == []
    assert found.rows.select("id", "name", "_deleted").rows() == [
        (1, "a", None), (2, "a", None), (9, None, True), (1, "b", None), (2, None, True), (2, None, True),
    ]  # fmt: skip


def test_a_deletion_without_the_row_before_is_left_to_its_tombstone_in_a_table_and_refused_in_a_stream() -> None:
    gone: list[bytes | None] = [change("c", row(3)), change("d"), None]
    assert decoded(gone, {2: b"3"}, table=["id"]).rows["_deleted"].to_list() == [None, True]
    ((at, reason),) = decoded(gone).refused
    assert at == 1
    assert reason.startswith("before: is null or missing in a record of op d")


def test_a_document_of_mongodb_is_a_text() -> None:
    assert decoded([change("c", json.dumps(row(4, "m")))]).rows.select("id", "name").rows() == [(4, "m")]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (json.dumps(row(1)).encode(), "op: is missing: no change record of Debezium"),
        (change("t"), "op: expected c, r, u or d, found 't' (truncate)"),
        (change("u", None, row(1)), "after: is null or missing in a record of op u"),
        (b"{broken", "no change record: "),
        (b"7", "no change record: "),
        (b'{"op":"c","after":{"id":1,"name":"a"},"befor\xff":1}', "no change record: a text is not UTF-8"),
        (change("c", {"id": 1}), "full name: is missing, expected string"),
        (change("c", row(1, price="1_0.5")), "price: expected decimal(8,2)?"),
        (change("c", 5), "expected a JSON object, found 5"),
    ],
)
def test_a_record_that_is_no_change_of_a_row_is_refused_alone(value: bytes, reason: str) -> None:
    found = decoded([change("c", row(1)), value, change("d", None, row(2))])
    assert found.rows["id"].to_list() == [1, 2]
    ((at, said),) = found.refused
    assert at == 1
    assert said.startswith(reason)


some = st.sampled_from(
    [*CHANGES, change("d"), change("t"), b"{", b"", json.dumps(row(1)).encode(), change("c", row(5))]
)


@examples(each_run=25, with_long=125)
@given(st.lists(some, max_size=8), st.integers(0, 8), st.booleans())
def test_records_become_the_same_in_any_batches(values: list[bytes | None], cut: int, of_table: bool) -> None:
    more: dict[str, Any] = {"table": ["id"]} if of_table else {}
    reader = decoder(**more)
    keys: dict[int, bytes | None] = {at: b"%d" % at for at, value in enumerate(values) if value is None}

    def of(begin: int, stop: int) -> tuple[list[Any], list[tuple[int, str]]]:
        some_keys = {at - begin: key for at, key in keys.items() if begin <= at < stop}
        found = reader.decode(values[begin:stop], [T_MS] * len(values[begin:stop]), some_keys)
        return found.rows.rows(), [(at + begin, reason) for at, reason in found.refused]

    whole, first, second = of(0, len(values)), of(0, cut), of(cut, len(values))
    assert whole == (first[0] + second[0], first[1] + second[1])


def test_a_job_is_tried_on_change_records_and_checked() -> None:
    shop = source(topic="t", envelope="debezium", fields={"id": "int"})
    job = Job(name="j", sources={"t": shop}, queries={"all": query(input="t")})
    tried = job.try_({"t": [json.loads(change("c", row(1))), json.loads(change("d", None, row(1)))]})
    assert tried["all"].rows() == [(1, "c"), (1, "d")]
    with pytest.raises(UnusableFile, match="reads change records"):
        job.try_({"t": tried["all"]})


def test_dates_of_connect_and_ids_of_mongodb_are_taken_out_by_a_select() -> None:
    fields = {
        "id": renamed("struct<$oid: string>", "_id"),
        "seen": "struct<$numberLong: string>",
        "at": "struct<$date: int>",
        "day": "int",
    }
    taken = [
        'id."$oid" AS id', 'CAST(seen."$numberLong" AS BIGINT) AS seen', 'TO_TIMESTAMP(at."$date" / 1000.0) AS at',
        "CAST(day AS DATE) AS day",
    ]  # fmt: skip
    job = Job(
        name="j",
        sources={"t": source(topic="t", envelope="debezium", fields=fields)},
        operators={"taken": select(select=taken, input="t")},
        queries={"all": query(input="taken")},
    )
    document = {"_id": {"$oid": "5f"}, "seen": {"$numberLong": "7"}, "at": {"$date": T_MS}, "day": 19_782}
    tried = job.try_({"t": [json.loads(change("c", json.dumps(document)))]})
    at = datetime.fromtimestamp(T_MS / 1000, UTC)
    assert tried["all"].rows() == [("5f", 7, at, date(2024, 2, 29))]


def checked(**more: Any) -> list[str]:
    given = {"topic": "t", "envelope": "debezium", "fields": {"id": "int"}, **more}
    queries = {"all": {"input": "s", "sink": {"topic": "out"}}}
    return [
        str(one) for one in check(interpret({"name": "j", "sources": {"s": given}, "queries": queries}), []).problems
    ]


def test_a_source_that_cannot_have_an_envelope_is_a_problem_of_the_job() -> None:
    assert checked() == []
    (problem,) = checked(format="avro")
    assert problem.startswith("sources.s.envelope: a source of format avro has none")
    (problem,) = checked(fields={"id": "int", "op": "string"})
    assert problem.startswith("sources.s.fields.op: is the column that says what happened to a row of debezium")
    with pytest.raises(JobRejected, match=r"sources\.s\.envelope"):
        checked(envelope="maxwell")
    spark = {"spark": {"sql": "SELECT * FROM input"}, "input": "s"}
    given = {"topic": "t", "envelope": "debezium", "fields": {"id": "int"}}
    queries = {"all": {"input": "heavy", "sink": {"topic": "out"}}}
    spec = interpret({"name": "j", "sources": {"s": given}, "operators": {"heavy": spark}, "queries": queries})
    assert not spark_inputs.directly_behind(spec, "s")


def test_fields_that_are_left_out_are_those_of_the_row_in_the_envelope() -> None:
    inside = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    schema = {
        "type": "object",
        "properties": {"op": {"type": "string"}, "after": {"oneOf": [{"type": "null"}, inside]}},
    }
    registry = Registry("mock://", {})
    registry.register("t-value", WriterSchema("JSON", json.dumps(schema)))
    raw = {"sources": {"s": {"topic": "t", "format": "json-schema", "envelope": "debezium"}}}
    given = with_fields(raw, lambda: registry, lambda: Patience(0.0, lambda text: None))
    assert given["sources"]["s"]["fields"] == {"id": "int"}
    registry.register("u-value", WriterSchema("JSON", json.dumps(inside)))
    raw["sources"]["s"]["topic"] = "u"
    with pytest.raises(JobRejected, match="has no `after` with fields"):
        with_fields(raw, lambda: registry, lambda: Patience(0.0, lambda text: None))
