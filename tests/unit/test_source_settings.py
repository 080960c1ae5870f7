"""Settings of a source: names in the record, times ahead of the record, records without a value; in every format."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from holdfast.schemas.jobs import JobSpec, Source
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.decoder import Decoded
from holdfast.services.kernel.dataflow.source_records import SourceDecoder
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning import source_streams, spark_inputs
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret

NOW_MS = 1_700_000_000_000
FIELDS = {
    "id": {"type": "string", "from": "_id"},
    "at": {"type": "timestamp", "from": "@timestamp"},
    "moment": {"type": "int?", "from": "_time"},
    "v": "int",
}


def decoded(values: list[bytes | None], keys: dict[int, bytes] | None = None, **settings: Any) -> Decoded:
    source = Source.model_validate({"topic": "in", "fields": FIELDS, "event_time": "at", "unit": "ms", **settings})
    stream = source_streams.stream(source)
    plan = OperatorPlan("s", "source", 1, (), source.model_dump(mode="json"), stream.fields, stream.row_key)
    return SourceDecoder(plan).decode(values, [NOW_MS] * len(values), keys or {})


def record(id: str, at_ms: int = NOW_MS, moment: int | None = 7, v: int = 1) -> dict[str, Any]:
    return {"_id": id, "@timestamp": at_ms, "_time": moment, "v": v}


def as_json(*rows: dict[str, Any]) -> list[bytes | None]:
    return [json.dumps(row).encode() for row in rows]


def as_csv(*rows: dict[str, Any]) -> list[bytes | None]:
    return [",".join("" if one is None else str(one) for one in row.values()).encode() for row in rows]


def as_arrow(*rows: dict[str, Any]) -> list[bytes | None]:
    frame = pl.DataFrame(rows).with_columns(pl.from_epoch("@timestamp", "ms").dt.replace_time_zone("UTC"))
    made: list[bytes | None] = []
    for index in range(frame.height):
        out = io.BytesIO()
        frame[index].write_ipc_stream(out)
        made.append(out.getvalue())
    return made


FORMATS = {"json": as_json, "csv": as_csv, "arrow": as_arrow}


@pytest.mark.parametrize("format", FORMATS)
def test_a_field_is_read_by_its_name_in_the_record(format: str) -> None:
    found = decoded(FORMATS[format](record("a"), record("b", moment=8, v=2)), format=format)
    assert found.refused == []
    assert found.rows.columns[:4] == ["id", "at", "moment", "v"]
    assert found.rows["id"].to_list() == ["a", "b"]
    assert found.rows["moment"].to_list() == [7, 8]


def test_a_row_of_a_table_is_deleted_by_the_name_in_the_record() -> None:
    for key in (b'{"_id": "a"}', b'"a"', b"a", b'["a"]'):
        found = decoded([*as_json(record("a")), None], {1: key}, table=["id"])
        assert found.refused == [], key
        assert found.rows["id"].to_list() == ["a", "a"]
        assert found.rows["_deleted"].to_list() == [None, True]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("ahead_s", "setting", "taken"),
    [(3600, {}, True), (3601, {}, False), (90 * 86400, {"max_ahead_s": 91 * 86400}, True),
     (92 * 86400, {"max_ahead_s": 91 * 86400}, False), (10 * 366 * 86400, {"max_ahead_s": None}, True),
     (11, {"max_ahead_s": 10}, False)],
)  # fmt: skip
def test_max_ahead_s_says_which_times_are_taken(
    format: str, ahead_s: int, setting: dict[str, Any], taken: bool
) -> None:
    found = decoded(FORMATS[format](record("a", NOW_MS + ahead_s * 1000)), format=format, **setting)
    assert (found.rows.height, len(found.refused)) == ((1, 0) if taken else (0, 1))
    if not taken:
        far = f"{setting['max_ahead_s']} s" if setting else "1 h"
        assert f"more than {far} ahead of the record's timestamp" in found.refused[0][1]


@pytest.mark.parametrize("format", FORMATS)
def test_a_time_too_far_ahead_becomes_that_of_the_record_where_the_job_says_so(format: str) -> None:
    records = FORMATS[format](record("a"), record("b", NOW_MS + 3_601_000), record("c", NOW_MS + 3_600_000))
    found = decoded(records, format=format, on_ahead="clamp")
    assert found.refused == []
    assert [time - NOW_MS * 1000 for time in found.rows["_time"].to_list()] == [0, 0, 3_600_000_000]
    assert found.rows["at"].dt.epoch("ms").to_list()[1] == NOW_MS + 3_601_000, "the column stays"


COMPUTED = {
    "epoch": "float?",
    "count": "int?",
    "text": "string?",
    "inner": "struct<at: timestamp?>?",
    "pattern": "string?",
}
NOON = datetime(2023, 12, 13, 12, tzinfo=UTC)


def timed(event_time: str, unit: str | None, *rows: dict[str, Any]) -> Decoded:
    """One after the other, and all at once: the time of a record depends on the record alone."""
    settings: dict[str, Any] = {"fields": COMPUTED, "event_time": event_time, "unit": unit, "max_ahead_s": None}
    values = as_json(*({**dict.fromkeys(COMPUTED), **row} for row in rows))
    together, alone = decoded(values, **settings), [decoded([value], **settings) for value in values]
    assert together.rows.equals(pl.concat([one.rows for one in alone]))
    assert [reason for _, reason in together.refused] == [reason for one in alone for _, reason in one.refused]
    return together


@pytest.mark.parametrize(
    ("event_time", "unit", "row"),
    [
        ("epoch", "s", {"epoch": NOON.timestamp()}),
        ("epoch", "ms", {"epoch": NOON.timestamp() * 1e3}),
        ("count", "ns", {"count": int(NOON.timestamp()) * 10**9 + 999}),
        ("count / 2.0", "s", {"count": int(NOON.timestamp()) * 2}),
        ("STRPTIME(text, '%d.%m.%Y %H:%M %z')", None, {"text": "13.12.2023 13:00 +0100"}),
        ("CAST(text AS TIMESTAMP) + INTERVAL '1 hour'", None, {"text": "2023-12-13T12:00:00+01:00"}),
        ("inner.at", None, {"inner": {"at": "2023-12-13T12:00:00Z"}}),
        ("COALESCE(inner.at, CAST(text AS TIMESTAMP))", None, {"text": "2023-12-13 12:00"}),
    ],
)
def test_an_event_time_may_be_computed(event_time: str, unit: str | None, row: dict[str, Any]) -> None:
    nothing = {"pattern": "x"}
    found = timed(event_time, unit, row, nothing)
    assert found.rows["_time"].to_list() == [int(NOON.timestamp()) * 1_000_000]
    assert found.refused == [(1, f"{event_time}: the event time is null")]


def test_numbers_that_are_no_time_and_rows_at_which_the_expression_fails_are_dead_letters() -> None:
    assert [index for index, _ in timed("epoch", "s", {"epoch": 1e300}, {"epoch": 1.25}).refused] == [0]
    assert [index for index, _ in timed("count", "ms", {"count": 2**62}, {"count": 1}).refused] == [0]
    far = timed("count + 1", "s", {"count": 2**61}, {"count": 0}, {})
    assert far.refused == [
        (0, f"count + 1: {2**61 + 1} is no time of the years 1 to 9999"),
        (2, "count + 1: the event time is null"),
    ]
    fails = "CASE WHEN REGEXP_LIKE('aa', pattern) THEN epoch ELSE 0.0 END"
    found = timed(fails, "s", {"epoch": 7.5, "pattern": "a"}, {"pattern": "("}, {"pattern": "b"})
    assert found.rows["_time"].to_list() == [7_500_000, 0]
    ((index, reason),) = found.refused
    assert index == 1
    assert reason.startswith(f"{fails}: ")


@pytest.mark.parametrize(
    ("event_time", "unit", "message", "hint"),
    [
        ("epoch", None, "'epoch' is of type float, not a time", "unit: s, for a number of seconds since 1970"),
        ("epoch * 2", None, "'epoch * 2' is a number, not a time", "unit: s, for a number of seconds since 1970"),
        ("text", "s", "'text' is of type string, not a time", "CAST(text AS TIMESTAMP), or STRPTIME with its form"),
        ("inner", None, "'inner' is of type struct<at: timestamp?>, not a time", "choose a timestamp"),
        ("epok + 1", "s", "there is no column 'epok' (did you mean 'epoch'?)", ""),
        ("epok", "s", "there is no field 'epok'", "did you mean 'epoch'?"),
        ("now()", None, "NOW gives another value at each replay; results must depend on the data alone", ""),
    ],
)
def test_a_mistake_in_an_event_time_is_said(event_time: str, unit: str | None, message: str, hint: str) -> None:
    ((path, said, hinted),) = rejected(COMPUTED, event_time=event_time, unit=unit)
    assert (path, said) == ("sources.s.event_time", message)
    assert hinted.startswith(hint)
    assert bool(hinted) == bool(hint)


def test_spark_takes_the_time_from_a_field() -> None:
    raw = job(COMPUTED, event_time="epoch", unit="s")
    raw["operators"] = {"o": {"spark": {"sql": "SELECT * FROM input"}, "input": "s"}}
    assert [one.path for one in spark_inputs.problems(interpret(raw))] == ["sources.s.event_time"]


def test_a_job_of_before_keeps_its_limit_and_its_dead_letters() -> None:
    """Its params on the log name neither setting."""
    params = {"fields": {"at": "timestamp"}, "event_time": "at", "unit": "ms"}
    decoder = SourceDecoder(OperatorPlan("s", "source", 1, (), params, {"at": "timestamp"}, ()))
    found = decoder.decode([b'{"at": %d}' % (NOW_MS + 3_601_000), None], [NOW_MS, NOW_MS], {})
    assert [index for index, _ in found.refused] == [0, 1]


@pytest.mark.parametrize("format", FORMATS)
def test_null_records_give_no_row_and_no_dead_letter(format: str) -> None:
    values = FORMATS[format](record("a"), record("b"))
    mixed = [None, values[0], None, values[1], b""]
    found = decoded(mixed, format=format, null_records="skip")
    assert found.rows["id"].to_list() == ["a", "b"]
    assert found.kept.tolist() == [1, 3]
    assert [index for index, _ in found.refused] == [4], "an empty value is a value"
    assert [index for index, _ in decoded(mixed, format=format).refused] == [0, 2, 4]
    assert decoded([None, None], format=format, null_records="skip").rows.height == 0


def job(fields: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {
        "name": "job",
        "sources": {"s": {"topic": "in", "fields": fields, **settings}},
        "queries": {"q": {"input": "s", "sink": {"topic": "out"}}},
    }


def rejected(fields: dict[str, Any], **settings: Any) -> list[tuple[str, str, str]]:
    try:
        found = check(interpret(job(fields, **settings)), []).problems
    except JobRejected as error:
        found = list(error.problems)
    return [(one.path, one.message, one.hint) for one in found]


def test_the_hint_for_a_name_with_an_underscore_is_accepted() -> None:
    ((path, _, hint),) = rejected({"_id": "string"})
    assert path == "sources.s.fields._id"
    assert hint.endswith("id: {type: string, from: _id}")
    assert rejected({"id": {"type": "string", "from": "_id"}}) == []


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"id": {"type": "strin", "from": "_id"}}, "sources.s.fields.id"),
        ({"id": {"type": "string"}}, "sources.s.fields.id.from"),
        ({"id": {"type": "string", "form": "_id"}}, "sources.s.fields.id.form"),
        ({"a": "int", "b": {"type": "int", "from": "a"}}, "sources.s.fields.b"),
        ({"a": 5}, "sources.s.fields.a"),
    ],
)
def test_a_mistake_in_a_field_is_said_at_the_field(fields: dict[str, Any], path: str) -> None:
    assert path in [found for found, _, _ in rejected(fields)]


def test_the_plain_form_of_a_job_is_a_job_again_and_the_schema_names_the_settings() -> None:
    spec = interpret(job(FIELDS))
    assert JobSpec.model_validate(spec.as_plain()) == spec
    assert spec.as_plain()["sources"]["s"]["fields"]["id"] == {"type": "string", "from": "_id"}
    schema = json.dumps(JobSpec.model_json_schema())
    assert all(f'"{name}"' in schema for name in ("from", "max_ahead_s", "on_ahead", "null_records"))
