"""Metadata of records as columns of a source, headers of a sink, and records that delete the row of their key."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.cuts import Range
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import Partition
from holdfast.services.client.in_memory_cluster import InMemoryCluster
from holdfast.services.client.local_run import complete, of_files
from holdfast.services.client.planned_job import topic_config
from holdfast.services.client.registry_fields import _leaves_out, _metadata
from holdfast.services.kernel.codecs.decoder import Decoded
from holdfast.services.kernel.codecs.fields import DELETED
from holdfast.services.kernel.codecs.metadata import Headers, Metadata
from holdfast.services.kernel.dataflow.cut_records import Records, TopicCuts
from holdfast.services.kernel.dataflow.source_records import SourceDecoder
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.plans.layout import SourceShare, TaskLayout
from holdfast.services.planning import source_streams, spark_inputs
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from tests.support.examples import examples

NOW_MS = 1_700_000_000_123
LIST = "list<struct<name: string, value: string?>>"
FIELDS: dict[str, Any] = {
    "user": {"type": "string?", "metadata": "key"},
    "v": "int",
    "part": {"type": "int", "metadata": "partition"},
    "off": {"type": "int", "metadata": "offset"},
    "came": {"type": "timestamp", "metadata": "timestamp"},
    "of": {"type": "string", "metadata": "topic"},
    "trace": {"type": "bytes?", "metadata": "header.trace"},
    "all": {"type": LIST, "metadata": "headers"},
}
Record = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers."""


def spec(fields: dict[str, Any] | None = None, **source: Any) -> JobSpec:
    declared = {"topic": "in", "fields": FIELDS if fields is None else fields, **source}
    return interpret({"name": "job", "sources": {"s": declared}, "queries": {"q": {"input": "s"}}})


def task(job: JobSpec) -> TaskLayout:
    stream = source_streams.stream(job.sources["s"])
    params = job.sources["s"].model_dump(mode="json")
    plan = OperatorPlan("s", "source", 1, (), params, stream.fields, stream.row_key)
    return TaskLayout("s-0", 0, plan, (), (), (), SourceShare("in", (0,)))


def decoded(records: Sequence[Record], fields: dict[str, Any] | None = None, **source: Any) -> Decoded:
    job = spec(fields, **source)
    count = len(records)
    metadata = Metadata(
        np.full(count, 3), np.arange(count) + 40, np.full(count, NOW_MS), [key for key, _, _ in records],
        [headers for _, _, headers in records],
    )  # fmt: skip
    keys = {at: key for at, (key, value, _) in enumerate(records) if value is None}
    decoder = SourceDecoder(task(job).operator)
    return decoder.decode([value for _, value, _ in records], [NOW_MS] * count, keys, None, metadata)


def shown(found: Decoded) -> list[dict[str, Any]]:
    return found.rows.drop("_time", "came", strict=False).to_dicts()


def value(v: int) -> bytes:
    return json.dumps({"v": v}).encode()


def row(off: int, v: int, user: str | None, headers: Headers = ()) -> dict[str, Any]:
    named = [{"name": name, "value": None if one is None else one.decode()} for name, one in headers or ()]
    trace = dict(headers or ()).get("trace")
    return {"user": user, "v": v, "part": 3, "off": off, "of": "in", "trace": trace, "all": named}


HEADERS: Headers = [("trace", b"t0"), ("trace", b"t1"), ("empty", None)]


def test_key_headers_time_and_place_of_a_record_are_columns() -> None:
    found = decoded([(b"u1", value(1), HEADERS), (None, b"no JSON", None), (b"u2", value(2), None)])
    assert shown(found) == [row(40, 1, "u1", HEADERS), row(42, 2, "u2")]
    assert found.rows["came"].dt.epoch("ms").to_list() == [NOW_MS] * 2
    assert found.rows.columns == [*FIELDS, "_time"]
    (refused,) = found.refused
    assert refused[0] == 1


def arrow(*values: int) -> bytes:
    out = io.BytesIO()
    pl.DataFrame({"v": values}).write_ipc_stream(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("format", "values"),
    [("json", [value(7), value(8)]), ("csv", [b"7", b"8"]), ("text", [b"7", b"8"]), ("arrow", [arrow(7), arrow(8)])],
)
def test_every_format_has_them(format: str, values: list[bytes]) -> None:
    fields = {**FIELDS, "v": "string"} if format == "text" else FIELDS
    found = decoded([(b"a", values[0], None), (None, b"\xff", None), (b"b", values[1], None)], fields, format=format)
    assert [(r["user"], r["off"], int(r["v"])) for r in shown(found)] == [("a", 40, 7), ("b", 42, 8)]
    assert [index for index, _ in found.refused] == [1]


def test_the_rows_of_an_arrow_record_have_the_metadata_of_their_record() -> None:
    found = decoded([(b"a", arrow(1, 2), None), (b"b", b"", None)], format="arrow")  # as many rows as records
    assert [(r["user"], r["off"], r["v"]) for r in shown(found)] == [("a", 40, 1), ("a", 40, 2)]


def test_metadata_that_may_not_be_null_or_is_no_text_refuses_its_record() -> None:
    fields = {
        "v": "int",
        "user": {"type": "string", "metadata": "key"},
        "h": {"type": "string", "metadata": "header.h"},
        "all": {"type": LIST, "metadata": "headers"},
    }
    good: Headers = [("h", b"1")]
    bad: Headers = [("h", b"1"), ("x", b"\xff")]
    found = decoded([(None, value(1), good), (b"\xff", value(2), good), (b"k", value(3), bad), (b"k", value(4), None),
                     (b"k", value(5), good)], fields)  # fmt: skip
    assert found.rows["v"].to_list() == [5]
    assert [reason for _, reason in found.refused] == [
        "user: the record has no key, expected string",
        "user: expected string, found bytes that are no UTF-8: type: bytes takes them",
        "all: expected string?, found bytes that are no UTF-8: type: bytes takes them",
        "h: the record has no header h, expected string",
    ]


def test_an_event_time_may_be_computed_from_metadata() -> None:
    found = decoded([(b"k", value(1), None)], event_time="came + INTERVAL '1 second'")
    assert found.rows["_time"].to_list() == [(NOW_MS + 1_000) * 1_000]


def test_the_key_of_a_record_may_be_the_key_of_a_table_and_of_its_deletions() -> None:
    fields = {"user": {"type": "string", "metadata": "key"}, "v": "int", "off": {"type": "int", "metadata": "offset"}}
    records: list[Record] = [(b'"u"', value(1), None), (b'"u"', None, None), (None, None, None), (b"\xff", None, None)]
    found = decoded(records, fields, table=["user"])
    assert found.rows.select("user", "v", "off", DELETED).rows() == [('"u"', 1, 40, None), ('"u"', None, None, True)]
    assert [reason for _, reason in found.refused] == [
        "a deletion: it has no key",
        "a deletion: user: expected string, found bytes that are no UTF-8: type: bytes takes them",
    ]


def test_change_records_keep_the_metadata_of_their_records() -> None:
    changes = [json.dumps({"op": "c", "after": {"v": v}}).encode() for v in (1, 2)]
    records: list[Record] = [(b"a", changes[0], None), (b"a", None, None), (b"b", changes[1], None)]
    found = decoded(records, envelope="debezium")
    assert [(r["user"], r["off"], r["v"]) for r in shown(found)] == [("a", 40, 1), ("b", 42, 2)]


@examples(each_run=20, with_long=100)
@given(st.lists(st.tuples(st.sampled_from([b"a", b"", None]), st.booleans()), max_size=12), st.integers(0, 12))
def test_batches_change_nothing(given: list[tuple[bytes | None, bool]], at: int) -> None:
    job = spec()
    cuts = TopicCuts(task(job))
    values = [value(n) if good else b"no" for n, (_, good) in enumerate(given)]
    keys = [key for key, _ in given]

    def read(start: int, stop: int) -> pl.DataFrame:
        some = slice(start, stop)
        stamps, headers = [NOW_MS] * (stop - start), [HEADERS] * (stop - start)
        records = Records(range(start, stop), values[some], stamps, {}, keys[some], headers)
        return cuts.read([Range(0, start, stop)], [records], {}).decoded.rows

    at = min(at, len(given))
    whole = read(0, len(given))
    assert whole.equals(pl.concat([read(0, at), read(at, len(given))]))
    assert whole["off"].to_list() == [n for n, (_, good) in enumerate(given) if good]


# -- what is refused --------------------------------------------------------------------------------------------------


def problems(raw: dict[str, Any]) -> dict[str, str]:
    try:
        found = check(interpret(raw), []).problems
    except JobRejected as rejected:
        found = list(rejected.problems)
    return {one.path: f"{one.message} ({one.hint})" for one in found}


def job(fields: dict[str, Any], sink: dict[str, Any] | None = None, **source: Any) -> dict[str, Any]:
    queries = {"q": {"input": "s", "sink": {"topic": "out", **(sink or {})}}}
    return {"name": "job", "sources": {"s": {"topic": "in", "fields": fields, **source}}, "queries": queries}


KEY = {"type": "string", "metadata": "key"}


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        (job({"v": "int", "k": {"type": "string", "metadata": "keys"}}), "sources.s.fields.k.metadata", "'key'?"),
        (job({"v": "int", "k": {"type": "int", "metadata": "key"}}), "sources.s.fields.k", "CAST(... AS BIGINT)"),
        (job({"v": "int", "k": {"type": "int", "metadata": "header.n"}}), "sources.s.fields.k", "a header is text or"),
        (job({"v": "int", "k": {"type": "int", "metadata": "timestamp"}}), "sources.s.fields.k", "type: timestamp"),
        (job({"v": "int", "k": {"type": "string", "metadata": "headers"}}), "sources.s.fields.k", LIST),
        (job({"v": "int", "k": {"metadata": "key"}}), "sources.s.fields.k.type", "is missing (Its type"),
        (job({"v": "int", "k": {**KEY, "from": "k"}}), "sources.s.fields.k.from", "is not a setting"),
        (job({"k": KEY}), "sources.s.fields", "one field that is no metadata"),
        (job({"k": KEY}, format="avro"), "sources.s.fields", "no registry was asked"),
        (job({"v": "int", "o": {"type": "int", "metadata": "offset"}}, table=["o"]), "sources.s.table[0]", "the key"),
        (job({"v": "int", "k": KEY}, table=["k", "v"]), "sources.s.table[0]", "alone"),
        (job({"v": "int", "k": KEY}, table=["k"], envelope="debezium"), "sources.s.table[0]", "columns of the row"),
        (job({"v": "int"}, {"headers": {"batch": "v"}}), "queries.q.sink.headers.batch", "a header of holdfast"),
        (job({"v": "int"}, {"headers": {"h": "w"}}), "queries.q.sink.headers.h", "there is no column 'w'"),
        (job({"v": "list<int>"}, {"headers": {"h": "v"}}), "queries.q.sink.headers.h", "which is no header"),
        (job({"v": "int"}, {"headers": {"h": "v"}, "format": "arrow"}), "queries.q.sink.headers", "many rows"),
        (job({"v": "int"}, {"delete_when": "v = 0"}), "queries.q.sink.delete_when", "`key` names the column"),
        (job({"v": "int"}, {"delete_when": "v", "key": "v"}), "queries.q.sink.delete_when", "not true or false"),
        (job({"v": "int"}, {"delete_when": "w = 0", "key": "v"}), "queries.q.sink.delete_when", "w"),
        (job({"v": "int"}, {"delete_when": "v = 0", "format": "arrow"}), "queries.q.sink.delete_when", "format: json"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_what_to_do(raw: dict[str, Any], path: str, words: str) -> None:
    found = problems(raw)
    assert words in found.get(path, ""), found


def test_fields_that_are_no_metadata_may_be_left_to_the_registry() -> None:
    source = {"format": "avro", "topic": "in", "fields": {"k": KEY}}
    assert _leaves_out(source)
    assert _metadata(source) == {"k": KEY}
    assert not _leaves_out({**source, "fields": {"k": KEY, "v": "int"}})


def test_spark_does_not_read_a_topic_whose_metadata_it_would_not_see() -> None:
    spark = {"h": {"spark": {"sql": "SELECT * FROM input"}, "input": "s"}}
    for fields, direct in (({"v": "int"}, True), ({"v": "int", "k": KEY}, False)):
        assert spark_inputs.directly_behind(interpret({**job(fields), "operators": spark}), "s") is direct


# -- through a cluster ------------------------------------------------------------------------------------------------


def test_metadata_goes_through_a_job_to_the_headers_and_deletions_of_its_sink() -> None:
    raw = job(
        {"user": KEY, "v": "int", "trace": {"type": "string?", "metadata": "header.trace"}},
        {"key": "user", "headers": {"trace": "trace", "v": "v"}, "delete_when": "v = 0"},
    )
    ready = complete(interpret(raw))
    cluster = InMemoryCluster(ready, [])
    cluster.create_topics()
    appender = cluster.log.appender("test")
    for key, v, headers in ((b"a", 1, [("trace", b"x")]), (b"b", 0, []), (b"a", 0, [("trace", b"y")])):
        appender.append(Partition("in", 0), value(v), key=key, headers=headers)
    cluster.submit()
    plan = cluster.until(cluster.plan)
    cluster.until(lambda: cluster.all_are(plan, "running") or None)
    cluster.drain(plan)
    cluster.until(lambda: cluster.all_are(plan, "ended") or None)
    written = list(cluster.log.scan(Partition("out", 0)))
    assert [(m.key(), m.value()) for m in written] == [
        (b"a", b'{"user":"a","v":1,"trace":"x"}'), (b"b", None), (b"a", None)
    ]  # fmt: skip
    own = [[one for one in m.headers() or () if one[0] in ("trace", "v")] for m in written]
    assert own == [[("trace", b"x"), ("v", b"1")], [("v", b"0")], [("trace", b"y"), ("v", b"0")]]
    assert all(dict(m.headers() or ())["status"] == b"final" for m in written)
    assert topic_config("out", ready) == {"cleanup.policy": "compact"}
    assert topic_config("in", ready) == {}


def test_rows_of_a_file_hold_key_and_headers_as_columns() -> None:
    fields = of_files(complete(spec())).sources["s"]
    assert set(fields.in_value) == {"user", "v", "trace", "all"}
    assert set(fields.metadata) == {"part", "off", "came", "of"}
    plain = complete(spec({"v": "int"})).as_plain()
    assert {"headers", "delete_when"}.isdisjoint(plain["queries"]["q"]["sink"])  # as releases of before write it
    assert of_files(complete(spec({"v": "string", "k": KEY}, format="text"))).sources["s"].metadata == {"k": "key"}
